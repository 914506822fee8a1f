"""A restore whose COMMIT reply is lost reports the truth; files left out of a backup count as removed."""

import asyncio
import hashlib
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from myna.accounts.sign_in import links, passwords, sessions
from myna.accounts.throttle import SignInRefused
from myna.actions.accounts import ResetAccount
from myna.actions.media import DeleteVoice
from myna.billing import audit
from myna.settings import Settings
from myna.store import backup, postgresql, tables
from myna.store.archive import ArchiveReader, ArchiveWriter
from myna.store.batch import Audio
from myna.store.database import Database, connect
from myna.store.files.named_files import AudioStore, SampleStore
from myna.store.files.storage import FOLDERS, Folder
from myna.store.postgresql import Postgresql
from myna.store.queries import clones, tasks
from myna.store.states import CloneStatus
from tests.rig.actors import perform
from tests.sign_in.conftest import ADDRESS, BROWSER, OTHER_PASSWORD, PASSWORD, person
from tests.store.books import Books, keep_of, speech
from tests.store.postgres_proxy import PostgresProxy, proxy_to

SOUND = b"sound"
COMMIT = b"COMMIT;"


class Source:
    """Books with one completed task, its audio in a data folder, and an empty folder for what is restored."""

    def __init__(self, books: Books, folder: Path) -> None:
        self.books = books
        self.folder = folder
        self.archive = folder / "site.tar"
        self.data = folder / "restored"
        self.data.mkdir()

    async def back_up(self, kinds: Sequence[str] = tuple(backup.KINDS)) -> None:
        with ArchiveWriter(self.archive, replace=True) as out:
            made = await backup.write(self.books.db, Folder(self.folder / "data"), out, kinds=kinds)
        assert made.missing == []

    async def restore(self, db: Database) -> None:
        with ArchiveReader(self.archive) as archive:
            await backup.restore(db, Folder(self.data), archive)

    async def check(self, db: Database) -> audit.Report:
        """An audit of what was restored."""
        return await audit.run(db, AudioStore(Folder(self.data)), full=True, hash_audio=True)


def put(store: AudioStore, content: bytes) -> str:
    name, path = store.new()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return name


@pytest.fixture
async def source(sqlite_books: Books, tmp_path: Path) -> Source:
    call = await sqlite_books.opened(await sqlite_books.customer(), task=speech())
    name = put(AudioStore(Folder(tmp_path / "data")), SOUND)
    audio = Audio(name, len(SOUND), hashlib.sha256(SOUND).digest())
    await sqlite_books.end(keep_of(call, None, audio))
    made = Source(sqlite_books, tmp_path)
    await made.back_up()
    return made


@pytest.fixture
async def proxy(postgres_url: str) -> AsyncIterator[PostgresProxy]:
    async with proxy_to(postgres_url) as opened:
        yield opened


@pytest.fixture
async def target(proxy: PostgresProxy, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Postgresql]:
    """It waits half a second for the reply to a COMMIT, and for a session that might still run."""
    for name in ("COMMAND_TIMEOUT_S", "IN_DOUBT_RUN_MAX_S", "CLOSE_TIMEOUT_S"):
        monkeypatch.setattr(postgresql, name, 0.5)
    opened = await Postgresql.open(proxy.url)
    yield opened
    await opened.close()


@pytest.mark.parametrize("lose", [PostgresProxy.drop_reply_to, PostgresProxy.silence_after])
async def test_a_restore_whose_commit_reply_was_lost_is_complete(
    source: Source, proxy: PostgresProxy, target: Postgresql, lose: Callable[[PostgresProxy, bytes], None]
) -> None:
    lose(proxy, COMMIT)
    await source.restore(target)
    report = await source.check(target)
    assert (report.breaches, report.checked.files) == ([], 1)


@pytest.mark.parametrize("lose", [PostgresProxy.disconnect_before, PostgresProxy.silence_before])
async def test_a_restore_whose_commit_never_arrived_leaves_nothing(
    source: Source, proxy: PostgresProxy, target: Postgresql, lose: Callable[[PostgresProxy, bytes], None]
) -> None:
    """Its session might wait for it forever, and is terminated."""
    lose(proxy, COMMIT)
    with pytest.raises(target.unavailable):
        await source.restore(target)
    assert not await target.has_schema()
    assert not any((source.data / folder).exists() for folder in FOLDERS)
    await source.restore(target)
    assert (await source.check(target)).breaches == []


async def test_audio_is_kept_while_the_commit_of_a_restore_is_in_doubt(
    source: Source,
    proxy: PostgresProxy,
    target: Postgresql,
    postgres_url: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(postgresql, "IN_DOUBT_WAIT_S", 0.5)
    proxy.drop_reply_to(COMMIT)
    proxy.refuse_connections()
    with pytest.raises(backup.RestoreInDoubt, match="unknown"):
        await source.restore(target)
    again = await Postgresql.open(postgres_url)
    assert (await source.check(again)).breaches == []
    await again.close()


@pytest.mark.parametrize("number", [0, 2**40], ids=["no status kept", "in the future"])
async def test_a_transaction_that_the_server_does_not_know_is_in_doubt(
    target: Postgresql, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """As after a failover to a server that had not received it."""
    monkeypatch.setattr(postgresql, "IN_DOUBT_WAIT_S", 0.5)
    with pytest.raises(TimeoutError, match="unknown"):
        await target.committed(number)


async def test_an_interrupt_while_the_load_is_in_another_thread_leaves_nothing(
    source: Source, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On SQLite it comes between the check of the files and the COMMIT, or before."""
    db = await Books("", tmp_path / "restored").open_again()
    restoring = asyncio.create_task(source.restore(db))
    transaction, loading = db.transaction, asyncio.Event()
    loop = asyncio.get_running_loop()

    def interrupted(work: Any, *args: Any, **named: Any) -> Any:
        async def load(*given: Any) -> Any:
            loop.call_soon_threadsafe(restoring.cancel)
            loop.call_soon_threadsafe(loading.set)
            return await work(*given)

        return transaction(load, *args, **named)

    with monkeypatch.context() as patched:
        patched.setattr(db, "transaction", interrupted)
        await asyncio.wait([restoring])
    await db.transaction(lambda connection: connection.fetch("SELECT 1"))  # the thread is through
    assert loading.is_set()
    assert (await db.has_schema()) == (source.data / "audio").exists() == (not restoring.cancelled())
    await db.close()


@pytest.fixture
async def restored(database_url: str, source: Source, postgres_url: str) -> AsyncIterator[Database]:
    """A new database of each dialect."""
    opened = await connect(Settings(data=str(source.data), database_url=postgres_url if database_url else ""))
    yield opened
    await opened.close()


CLONE = """INSERT INTO clones (voice_id, account_id, name, language, transcript, sample, sample_bytes,
sample_sha256, sample_ms, consent_by, consent_text, consent_at, created_at, status, preview, preview_bytes,
preview_sha256, reason) SELECT $1, max(id), $1, 'en', 'a', $2, 1, $3, 1, 'me', 'yes', 1, 1, $4, $5, 1, $6, $7
FROM accounts"""


async def clone(source: Source, name: str, status: CloneStatus, reason: str = "") -> tuple[str, str]:
    """The names of a clone's sample and preview, which exist."""
    sample, path = SampleStore(Folder(source.folder / "data")).new()
    await asyncio.to_thread(path.write_bytes, b"sample")
    preview = put(AudioStore(Folder(source.folder / "data")), SOUND) if status == CloneStatus.READY else ""
    sha256 = b"s" * 32 if preview else b""
    await source.books.sql(CLONE, name, sample, b"x" * 32, int(status), preview, sha256, reason)
    return sample, preview


async def test_audio_that_was_left_out_counts_as_removed(source: Source, restored: Database) -> None:
    sample, preview = await clone(source, "v", CloneStatus.READY)
    await source.back_up(["samples"])
    await source.restore(restored)
    report = await source.check(restored)
    assert (report.breaches, report.checked.tasks, report.checked.files) == ([], 1, 0)
    ((task_id, account_id),) = await restored.fetch("SELECT id, account_id FROM tasks")
    task = await tasks.of_account(restored, account_id, task_id)
    assert task is not None and (task.status, task.audio) == (2, "")
    assert await clones.by_voice_id(restored, "v") == await clones.by_voice_id(source.books.db, "v")
    assert (source.data / "samples" / sample[:2] / sample).exists() and (
        source.data / "audio" / preview[:2] / preview
    ).exists()
    await again(source, restored)


async def test_a_restored_voice_without_its_sample_has_failed_with_the_reason(
    source: Source, restored: Database
) -> None:
    await clone(source, "ready", CloneStatus.READY)
    await clone(source, "queued", CloneStatus.QUEUED)
    await clone(source, "failed", CloneStatus.FAILED, "too loud")
    await source.back_up(["audio"])
    await source.restore(restored)
    report = await source.check(restored)
    assert (report.breaches, report.checked.files) == ([], 1)
    found = [one.clone for one in await clones.page(restored, 0, 9)]
    assert [(one.voice_id, one.status, one.reason, one.sample, one.preview) for one in found] == [
        ("ready", CloneStatus.FAILED, clones.SAMPLE_LEFT_OUT, "", ""),
        ("queued", CloneStatus.FAILED, clones.SAMPLE_LEFT_OUT, "", ""),
        ("failed", CloneStatus.FAILED, "too loud", "", ""),
    ]
    assert not (source.data / "samples").exists()
    await again(source, restored)
    await perform(restored, DeleteVoice(voice_id="ready"), settings=Settings(data=str(source.data)))
    assert await clones.by_voice_id(restored, "ready") is None


async def again(source: Source, restored: Database) -> None:
    """A backup of the restored database is complete."""
    with ArchiveWriter(source.data / "again.tar", replace=True) as out:
        assert (await backup.write(restored, Folder(source.data), out)).missing == []


async def test_a_restore_revives_no_session_and_no_link(source: Source, restored: Database) -> None:
    """They may have been closed or used since the backup. Passwords are restored."""
    ann = await person(source.books)
    token = await sessions.sign_in(source.books.db, "ann", PASSWORD, ADDRESS, BROWSER)
    link = await perform(source.books.db, ResetAccount(name="ann"))
    with pytest.raises(SignInRefused):
        await passwords.verify(source.books.db, "ann", OTHER_PASSWORD, ADDRESS)
    await source.back_up()
    await source.restore(restored)
    assert await sessions.find(restored, token) is None
    assert await links.find(restored, link) is None
    for table in tables.NOT_KEPT:
        assert await tables.count(restored, table) == 0
    assert (await passwords.verify(restored, "ann", PASSWORD, ADDRESS)).account == ann

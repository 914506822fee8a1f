"""myna backup and myna restore, as an operator types them, also from one database to the other."""

import json
import sqlite3
import stat
import tarfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from myna.settings import Settings
from myna.store import migrate
from myna.store.database import Transaction, connect
from myna.store.schema import BASELINE, schema_version
from tests.cli.conftest import CHAT, Site
from tests.rig.calls import call
from tests.rig.commands import CommandLine
from tests.rig.disks import on_full_disk
from tests.rig.postgres import Postgres
from tests.rig.service import Service, ServiceMaker


def empty(folder: Path, commands: CommandLine, url: str) -> Service:
    """A service with an empty data folder and a separate database."""
    return Service(folder / "elsewhere", commands, database_url=url, speech="none")


@pytest.fixture
def elsewhere(tmp_path: Path, commands: CommandLine) -> Service:
    """On SQLite."""
    return empty(tmp_path, commands, "")


@pytest.fixture
def elsewhere_on_postgresql(tmp_path: Path, commands: CommandLine, postgres: Postgres) -> Iterator[Service]:
    url = postgres.fresh_database()
    yield empty(tmp_path, commands, url)
    postgres.drop(url)


@pytest.fixture
def archive(tmp_path: Path) -> str:
    return str(tmp_path / "site.tar")


DIRECTIONS = [("sqlite_site", "elsewhere_on_postgresql"), ("postgresql_site", "elsewhere")]


@pytest.mark.parametrize(("source", "target"), DIRECTIONS, ids=["to postgresql", "to sqlite"])
def test_a_backup_during_calls_is_complete_in_the_other_database(
    request: pytest.FixtureRequest, source: str, target: str, archive: str
) -> None:
    site, elsewhere = request.getfixturevalue(source), request.getfixturevalue(target)
    site.service.start()
    with site.busy():
        made = site.service.cli("backup", archive)
    assert stat.S_IMODE(Path(archive).stat().st_mode) == 0o600
    assert (made["accounts"], made["keys"], made["tasks"], made["files"]) == (1, 1, 1, 2)
    assert made["calls"] >= 2 and made["files_missing"] == made["removed_meanwhile"] == 0

    loaded = elsewhere.cli("restore", archive)
    assert loaded["breaches"] == 0
    assert {name: loaded[name] for name in loaded if name in made} == {
        name: made[name] for name in made if name in loaded
    }
    assert [row["name"] for row in elsewhere.cli("account", "list")] == ["talkative"]
    (key,) = elsewhere.cli("key", "list", "talkative")
    assert (key["id"], key["masked"]) == (int(site.key.id), site.key.masked)
    assert (elsewhere.folder / "data" / "audio" / site.audio[:2] / site.audio).read_bytes() == (
        site.service.folder / "data" / "audio" / site.audio[:2] / site.audio
    ).read_bytes()
    (sample,) = (elsewhere.folder / "data").glob("samples/*/*.wav")
    assert [stat.S_IMODE(path.stat().st_mode) for path in (sample, sample.parent, sample.parents[1])] == [
        *(0o600, 0o700, 0o700)
    ]
    assert site.voice in [voice["voice_id"] for voice in elsewhere.cli("voice", "list")]


@pytest.mark.parametrize("target", ["elsewhere_on_postgresql", "elsewhere"])
def test_a_restored_site_serves_the_same_keys_and_continues_its_ids(
    request: pytest.FixtureRequest, sqlite_site: Site, target: str, make_service: ServiceMaker, archive: str
) -> None:
    site, url = sqlite_site, request.getfixturevalue(target).env["MYNA_DATABASE_URL"]
    removed = site.service.account(name="second")
    site.service.cli("backup", archive)
    restored = make_service(database_url=url or None, chat_url="parrot:", speech="none")
    restored.cli("restore", archive)
    restored.start()
    assert call("GET", f"{restored.base_url}/me", key=site.key.plain).json["use_count"] == 2
    answer = call("POST", f"{restored.base_url}/chat/completions", key=site.key.plain, data=CHAT)
    assert answer.status == 200
    assert call("GET", f"{restored.root_url}/uploads/{site.audio}").status == 200
    before = restored.cli("account", "show", removed.name)["id"]
    assert restored.cli("account", "add", "third")["id"] == before + 1
    assert restored.stop() == 0
    assert restored.command("audit", "--audio").code == 0


def test_audio_and_samples_can_be_left_out(sqlite_site: Site, archive: str) -> None:
    site = sqlite_site
    assert site.service.cli("backup", archive, "--no-audio")["files"] == 1
    assert site.service.cli("backup", archive, "--no-samples", "--force")["files"] == 1
    assert site.service.cli("backup", archive, "--no-audio", "--no-samples", "--force")["files"] == 0


def test_a_missing_file_is_reported_and_the_rest_is_backed_up(sqlite_site: Site, archive: str) -> None:
    site = sqlite_site
    (site.service.folder / "data" / "audio" / site.audio[:2] / site.audio).unlink()
    ended = site.service.command("backup", archive, "--json")
    assert ended.code == 1
    assert ended.stderr == f"myna: audio/{site.audio} is missing, though the database names it\n"
    assert json.loads(ended.stdout)["files"] == 1


def test_an_existing_file_is_replaced_only_with_force(sqlite_site: Site, archive: str) -> None:
    site = sqlite_site
    Path(archive).write_bytes(b"precious")
    ended = site.service.command("backup", archive, "--json")
    assert (ended.code, ended.stderr) == (1, f"myna: {archive} exists already: --force replaces it.\n")
    assert Path(archive).read_bytes() == b"precious"
    site.service.cli("backup", archive, "--force")
    assert tarfile.is_tarfile(archive)
    folder = str(Path(archive).parent)
    ended = site.service.command("backup", folder, "--force", "--json")
    said = f"myna: {folder} is a folder; name a file in it, such as {folder}/myna.tar.\n"
    assert (ended.code, ended.stderr) == (1, said)


def test_a_backup_that_cant_be_written_leaves_nothing(sqlite_site: Site, tmp_path: Path) -> None:
    service = sqlite_site.service
    for place, why in ((tmp_path / "no" / "x", "No such file or directory"), (Path("/dev/null/x"), "Not a")):
        ended = service.command("backup", str(place))
        assert ended.code == 1 and why in ended.stderr
    limited = on_full_disk(2**16, ["backup", "out.tar"], service.env, tmp_path)
    assert limited.code == 1
    assert limited.stderr.splitlines()[-1] == "myna: out.tar can't be written: File too large."
    assert not list(tmp_path.glob("*out.tar*"))


@pytest.fixture
def whole(sqlite_site: Site, archive: str) -> bytes:
    sqlite_site.service.cli("backup", archive)
    return Path(archive).read_bytes()


def damaged(whole: bytes, archive: str) -> dict[str, bytes]:
    """Damaged archives: truncated, changed, with other members."""
    found = {f"cut at {size}": whole[:size] for size in (0, 100, 512, 5000, len(whole) // 2)}
    with tarfile.open(archive) as tar:
        members = tar.getmembers()
        last = members[-1]
        audio = next(member for member in members if member.name.startswith("audio/"))
        row = next(member for member in members if member.name.startswith("rows/accounts/"))
    found["without its manifest"] = whole[: last.offset] + bytes(10240)
    for what, member in (("audio", audio), ("a row", row), ("the manifest", last)):
        place = member.offset_data + member.size // 2
        found[f"{what} changed"] = whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :]
    return found


@pytest.mark.parametrize("place", ["elsewhere_on_postgresql", "elsewhere"])
def test_a_damaged_backup_is_refused_and_leaves_nothing(
    request: pytest.FixtureRequest, place: str, whole: bytes, archive: str
) -> None:
    """On PostgreSQL one whose rows are whole, and one whose rows are not."""
    elsewhere: Service = request.getfixturevalue(place)
    archives = damaged(whole, archive)
    for what in archives if place == "elsewhere" else ("audio changed", "a row changed"):
        Path(archive).write_bytes(archives[what])
        ended = elsewhere.command("restore", archive)
        assert (ended.code, ended.stdout) == (1, ""), what
        assert len(ended.stderr.splitlines()) == 1 and "Traceback" not in ended.stderr, (what, ended)
        assert elsewhere.command("account", "list").code == 1, what
        left = {path.name for path in (elsewhere.folder / "data").glob("*")}
        assert left <= {"serving.lock", "write.lock"}, what
    Path(archive).write_bytes(whole)
    assert elsewhere.cli("restore", archive)["breaches"] == 0


@pytest.mark.parametrize("place", ["elsewhere_on_postgresql", "elsewhere"])
def test_a_restore_requires_an_empty_database_and_folder(
    request: pytest.FixtureRequest, place: str, whole: bytes, archive: str
) -> None:
    elsewhere: Service = request.getfixturevalue(place)
    (elsewhere.folder / "data" / "audio" / "ab").mkdir(parents=True)
    ended = elsewhere.command("restore", archive)
    assert ended.code == 1 and f"{elsewhere.folder / 'data' / 'audio'} isn't empty" in ended.stderr
    (elsewhere.folder / "data" / "audio" / "ab").rmdir()
    elsewhere.cli("restore", archive)
    before = elsewhere.cli("account", "list")
    again = elsewhere.command("restore", archive)
    assert again.code == 1 and "isn't empty" in again.stderr
    assert elsewhere.cli("account", "list") == before
    assert elsewhere.command("audit", "--audio").code == 0, "the files of the first one are still there"


def test_a_file_that_is_no_backup_is_refused(elsewhere: Service, tmp_path: Path) -> None:
    (tmp_path / "text").write_text("nothing of the kind " * 100)
    with tarfile.open(tmp_path / "tar", "w") as tar:
        tar.add(tmp_path / "text", "text")
    for name in ("text", "tar", "nowhere", "."):
        ended = elsewhere.command("restore", str(tmp_path / name))
        assert ended.code == 1 and len(ended.stderr.splitlines()) == 1, ended


@pytest.mark.parametrize(("schema", "kind"), [(26, "sqlite"), (26, "postgresql"), (25, "sqlite")])
async def test_an_older_schema_can_be_backed_up_and_is_restored_from_0_26_on(
    schema: int,
    kind: str,
    request: pytest.FixtureRequest,
    tmp_path: Path,
    commands: CommandLine,
    archive: str,
) -> None:
    """As before an upgrade from a version that has no backup."""
    url = "" if kind == "sqlite" else str(request.getfixturevalue("postgres_url"))
    here = empty(tmp_path / "old", commands, url)
    db = await connect(Settings(data=str(here.folder / "data"), database_url=url or ""))

    async def build(connection: Transaction) -> int:
        await migrate.build(db, connection, BASELINE)
        await connection.fetch("UPDATE schema_version SET version = $1", schema)
        await connection.fetch(
            "INSERT INTO accounts (name, email, operator, created_at) VALUES ('a', '', 0, 1)"
        )
        return await schema_version(connection)

    version = await db.transaction(build)
    assert here.command("account", "list").code == 1
    assert here.cli("backup", archive)["accounts"] == 1
    assert await schema_version(db) == version, "a backup migrates nothing"
    await db.close()

    new = empty(tmp_path, commands, "")
    if schema < BASELINE:
        assert "with Myna 0.26 first" in new.command("restore", archive).stderr
    else:
        new.cli("restore", archive)
        assert [row["name"] for row in new.cli("account", "list")] == ["a"]


def test_a_restore_is_kept_if_only_its_audit_fails(
    sqlite_site: Site, tmp_path: Path, commands: CommandLine, archive: str
) -> None:
    """The audit fails without its own row. The audio is already in its place, so the rows are kept too."""
    with closing(sqlite3.connect(sqlite_site.service.folder / "data" / "myna.sqlite")) as raw, raw:
        raw.execute("DELETE FROM audit_state")
    sqlite_site.service.cli("backup", archive)
    elsewhere = empty(tmp_path, commands, "")
    assert elsewhere.command("restore", archive).code != 0
    assert [row["name"] for row in elsewhere.cli("account", "list")] == ["talkative"]
    assert (elsewhere.folder / "data" / "audio" / sqlite_site.audio[:2] / sqlite_site.audio).exists()

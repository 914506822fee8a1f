"""A voice is cloned from an inspected sample, with a recorded consent, free of charge."""

import asyncio
import contextlib
import hashlib
import os
import time
from pathlib import Path

import pytest

from myna.actions.media import CLONES_MAX
from myna.actions.site import SetSetting
from myna.errors import CommandError
from myna.store.postgresql import Postgresql
from myna.store.queries import clones as store
from myna.store.states import CloneStatus
from myna.voices import clones
from myna.voices.clones import CONSENT
from tests.clones.conftest import CloneSetup
from tests.rig.actors import perform
from tests.rig.disks import StuckFile
from tests.rig.waiting import until
from tests.store.books import books_of
from tests.store.fixtures import each_database
from tests.store.postgres_proxy import proxy_to

PLACES_OF_ONE = 24
"""Of the 33 samples that may wait or be checked."""


async def test_a_new_voice_waits_for_a_node_with_its_sample_and_its_consent(clone_setup: CloneSetup) -> None:
    customer = await clone_setup.books.customer(units=7)

    row = await clone_setup.clone(customer, transcript=" 你好，\n 世界 ")

    assert clones.is_clone(row.voice_id)
    assert (row.account_id, row.status, row.reason) == (customer.account_id, CloneStatus.QUEUED, "")
    assert (row.name, row.language, row.transcript) == ("小明", "zh", "你好， 世界")
    said = "the account's owner (given to the command line of tester)"
    assert (row.consent_by, row.consent_text) == (said, CONSENT)
    assert abs(row.consent_at - time.time() * 1000) < 60_000
    data = clone_setup.samples.read(row.sample, 0, row.sample_bytes + 1)
    assert (row.sample_bytes, row.sample_sha256) == (len(data), hashlib.sha256(data).digest())
    assert row.sample_ms == 3500
    assert await clone_setup.books.balance(customer) == 7
    assert await clone_setup.books.sql("SELECT count(*) FROM calls") == [(0,)]


async def test_an_account_with_many_samples_leaves_places_to_others(
    clone_setup: CloneSetup, tmp_path: Path
) -> None:
    greedy, other = await clone_setup.books.customer(), await clone_setup.books.customer()
    stuck = StuckFile(tmp_path / "stuck")
    with contextlib.closing(stuck):
        many = [asyncio.create_task(clone_setup.clone(greedy, sample=str(stuck.path))) for _ in range(40)]
        await until(lambda: stuck.has_reader() and sum(task.done() for task in many) == 40 - PLACES_OF_ONE)
        refused = {str(task.exception()) for task in many if task.done()}
        assert refused == {"The sample could not be checked: The engine's queue is full."}
        one = asyncio.create_task(clone_setup.clone(other))
        for task in many:
            task.cancel()
        assert (await one).account_id == other.account_id
        await asyncio.gather(*many, return_exceptions=True)


async def test_a_sample_over_the_accounts_quota_is_not_stored(clone_setup: CloneSetup) -> None:
    await perform(clone_setup.books.db, SetSetting(name="account_storage_mib", value="1"))
    customer = await clone_setup.books.customer()
    first = await clone_setup.clone(customer)
    room = 2**20 - first.sample_bytes
    await clone_setup.books.sql("UPDATE clones SET preview_bytes = $1", room - first.sample_bytes)
    second = await clone_setup.clone(customer)  # the quota's last byte

    with pytest.raises(CommandError, match="may store 1 MiB"):
        await clone_setup.clone(customer)

    assert clone_setup.files() == sorted([first.sample, second.sample])
    await clone_setup.clone(await clone_setup.books.customer())
    await clone_setup.delete(second.voice_id)
    await clone_setup.clone(customer)


async def test_of_two_samples_that_exceed_the_quota_together_one_is_stored(clone_setup: CloneSetup) -> None:
    await perform(clone_setup.books.db, SetSetting(name="account_storage_mib", value="1"))
    customer = await clone_setup.books.customer()
    first = await clone_setup.clone(customer)
    room = 2**20 - 2 * first.sample_bytes
    await clone_setup.books.sql("UPDATE clones SET preview_bytes = $1", room)
    both = await asyncio.gather(
        clone_setup.clone(customer), clone_setup.clone(customer), return_exceptions=True
    )
    assert sorted(type(one).__name__ for one in both) == ["CloneRow", "CommandError"]
    assert len(clone_setup.files()) == 2


async def test_a_sample_is_readable_by_the_services_user_only(clone_setup: CloneSetup) -> None:
    row = await clone_setup.clone(await clone_setup.books.customer())
    path = clone_setup.samples.folder / row.sample[:2] / row.sample
    assert clone_setup.samples.stat("../" + row.sample) is None
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == path.parent.parent.stat().st_mode & 0o777 == 0o700


async def test_without_consent_nothing_is_stored_and_the_error_states_it(clone_setup: CloneSetup) -> None:
    customer = await clone_setup.books.customer()
    with pytest.raises(CommandError, match="consent") as refused:
        await clone_setup.clone(customer, consent=False)
    assert CONSENT in str(refused.value)
    assert clone_setup.files() == []
    assert await clones.list_all(clone_setup.books.db) == []


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"name": " "}, "A name has 1 to 100"),
        ({"name": "a\nb"}, "A name has 1 to 100"),
        ({"consent_by": "c" * 201}, "A name has 1 to 200"),
        ({"language": "zh-CN"}, "zh, yue or en; it is 'zh-CN'"),
        ({"transcript": "，。！"}, "no letter or digit"),
        ({"transcript": "字" * 1001}, "may have 1000 characters; it has 1001"),
        ({"transcript": "a\0b"}, "control character"),
    ],
    ids=str,
)
async def test_an_invalid_request_is_refused_and_nothing_is_stored(
    clone_setup: CloneSetup, change: dict[str, str], said: str
) -> None:
    customer = await clone_setup.books.customer()
    with pytest.raises(CommandError, match=said):
        await clone_setup.clone(customer, **change)
    assert clone_setup.files() == []


@each_database
async def test_concurrent_clones_do_not_exceed_the_limit(clone_setup: CloneSetup) -> None:
    customer = await clone_setup.books.customer()
    for _ in range(CLONES_MAX - 1):
        await clone_setup.queued(customer)

    results = await asyncio.gather(*(clone_setup.clone(customer) for _ in range(3)), return_exceptions=True)

    refused = [result for result in results if isinstance(result, CommandError)]
    assert len(refused) == 2
    assert all("has 100 cloned voices" in str(refusal) for refusal in refused)
    assert await store.count(clone_setup.books.db, customer.account_id) == CLONES_MAX
    assert len(clone_setup.files()) == CLONES_MAX
    await clone_setup.queued(await clone_setup.books.customer())  # another account isn't counted in


async def test_a_sample_is_kept_when_the_commit_of_its_voice_is_in_doubt(
    postgres_url: str, tmp_path: Path, recording: Path
) -> None:
    """The COMMIT happened and its reply was lost: without its sample the voice could never be cloned."""
    async with books_of(postgres_url, tmp_path) as books, proxy_to(postgres_url) as proxy:
        clone_setup = CloneSetup(books, recording)
        customer, db = await books.customer(), await Postgresql.open(proxy.url)
        proxy.drop_reply_to(b"COMMIT")
        with pytest.raises(db.unavailable):
            await clone_setup.clone(customer, db)
        await db.close()
        await clone_setup.close()
        (owned,) = await clones.list_all(books.db)
        assert clone_setup.samples.stat(owned.clone.sample) is not None


async def test_an_old_sample_without_a_voice_is_removed(clone_setup: CloneSetup) -> None:
    voice = await clone_setup.find(await clone_setup.queued(await clone_setup.books.customer()))
    orphan, path = clone_setup.samples.new()
    path.write_bytes(b"left behind")
    young, young_path = clone_setup.samples.new()
    young_path.write_bytes(b"on its way")
    assert voice is not None
    for name in (voice.sample, orphan):
        os.utime(clone_setup.samples.folder / name[:2] / name, (1000, 1000))

    assert await clones.remove_orphans(clone_setup.books.db, clone_setup.samples, 2000) == 1

    assert clone_setup.files() == sorted([voice.sample, young])


@each_database
async def test_only_ready_voices_count_and_only_for_their_account(clone_setup: CloneSetup) -> None:
    db, customer, other = (
        clone_setup.books.db,
        await clone_setup.books.customer(),
        await clone_setup.books.customer(),
    )
    node = await clone_setup.node()
    first, second = await clone_setup.ready(customer, node), await clone_setup.ready(customer, node)
    theirs = await clone_setup.ready(other, node)
    queued = await clone_setup.queued(customer)

    assert await store.ready(db, customer.account_id) == [first, second]
    listed = [owned.clone.voice_id for owned in await store.owned_by(db, customer.account_id)]
    assert listed == [first.voice_id, second.voice_id, queued]
    assert [(owned.clone.voice_id, owned.account) for owned in await clones.list_all(db)] == [
        (first.voice_id, customer.name),
        (second.voice_id, customer.name),
        (theirs.voice_id, other.name),
        (queued, customer.name),
    ]


@pytest.mark.parametrize(
    "voice_id",
    ["zh-female-1", "clone-", "clone-" + "A" * 32, "clone-" + "0" * 33, "clone-" + "0" * 32 + "\n"],
)
def test_the_id_of_a_cloned_voice_has_its_own_form(voice_id: str) -> None:
    assert clones.is_clone("clone-" + "0f" * 16)
    assert not clones.is_clone(voice_id)

"""Keys that are rolled, renamed and revoked."""

import asyncio
import time
from collections.abc import Awaitable, Callable

import pytest

from myna.accounts import keys
from myna.accounts.keys import Scope, UnverifiedCaller
from myna.actions.keys import RenameKey, RevokeKey, RollKey
from myna.errors import CommandError, Unauthorized
from myna.lib.times import parse_duration
from myna.store.batch import Charged
from myna.store.database import Database
from myna.store.queries import keys as store
from myna.store.rows import ID_MAX
from tests.ledger.ledger_service import LedgerService, ledger_service_on
from tests.rig.actors import perform
from tests.rig.waiting import until
from tests.store.books import KEY_REFUSED, Books, Customer, charge_of, disable, revoke
from tests.store.fixtures import each_database

DAY_MS = 86_400_000


async def is_valid(books: Books, key_hash: bytes) -> bool:
    try:
        await keys.verify(books.db, UnverifiedCaller(key_hash, Scope.CHAT))
    except Unauthorized:
        return False
    return True


@each_database
async def test_a_rolled_key_works_until_the_end_of_its_grace_period(books: Books) -> None:
    await books.stop_clock()
    old = await books.customer(scopes=Scope.CHAT)
    rolled = await perform(books.db, RollKey(key=str(old.key_id), grace="7d"))
    first, second = await store.of_account(books.db, old.account_id)
    assert (second.name, second.scopes, second.expires_at) == (first.name, Scope.CHAT, 0)
    assert rolled.old_expires_at == first.expires_at // 1000
    await books.move_clock(7 * DAY_MS - 1)
    assert await is_valid(books, old.key_hash)
    await books.move_clock(1)
    assert not await is_valid(books, old.key_hash)
    assert await is_valid(books, keys.hash_of(rolled.issued.key))


async def test_a_key_that_expires_earlier_keeps_its_expiry_and_its_successor_lives_as_long(
    books: Books,
) -> None:
    await books.stop_clock()
    old = await books.customer(life_ms=3 * DAY_MS)
    await books.move_clock(DAY_MS)
    await perform(books.db, RollKey(key=str(old.key_id), grace="7d"))
    first, second = await store.of_account(books.db, old.account_id)
    assert first.expires_at == first.created_at + 3 * DAY_MS
    assert second.expires_at == second.created_at + 3 * DAY_MS


async def test_a_key_that_is_not_active_is_not_rolled(books: Books) -> None:
    revoked, expired = await books.customer(), await books.customer(life_ms=1000)
    await perform(books.db, RevokeKey(key=str(revoked.key_id)))
    await books.move_clock(1000)
    for key, state in ((revoked, "revoked"), (expired, "expired")):
        with pytest.raises(CommandError, match=f"is {state}"):
            await perform(books.db, RollKey(key=str(key.key_id), grace="1d"))
        assert len(await store.of_account(books.db, key.account_id)) == 1


async def test_a_key_of_another_account_is_unknown(books: Books) -> None:
    mine, other = await books.customer(), await books.customer()
    for change in (
        perform(books.db, RollKey(key=str(other.key_id), grace="1d"), owner_id=mine.account_id),
        perform(books.db, RenameKey(key=str(other.key_id), name="mine"), owner_id=mine.account_id),
        perform(books.db, RevokeKey(key=str(other.key_id)), owner_id=mine.account_id),
    ):
        with pytest.raises(CommandError, match=f"There is no key {other.key_id}"):
            await change
    (key,) = await store.of_account(books.db, other.account_id)
    assert (key.name, key.expires_at, key.revoked_at) == ("a key", 0, 0)
    await perform(books.db, RenameKey(key=str(mine.key_id), name="mine"), owner_id=mine.account_id)
    (renamed,) = await store.of_account(books.db, mine.account_id)
    assert renamed.name == "mine"
    with pytest.raises(CommandError, match="printable"):
        await perform(books.db, RenameKey(key=str(mine.key_id), name=" "))


@pytest.mark.parametrize(
    ("text", "seconds"), [("90s", 90), ("61m", 3660), ("36h", 129_600), ("30d", 2_592_000), ("2w", 1_209_600)]
)
def test_a_duration_is_read_by_its_unit(text: str, seconds: int) -> None:
    assert parse_duration(text) == seconds * 1000


# ---- the internal key of the page Try


@each_database
async def test_an_account_has_one_internal_key_that_pays_for_chat_and_speech(books: Books) -> None:
    owner = await books.customer(units=2)
    found = set(await asyncio.gather(*(keys.try_hash(books.db, owner.account_id) for _ in range(4))))
    found |= {await keys.try_hash(books.db, owner.account_id)}
    assert await books.sql("SELECT count(*) FROM keys WHERE internal = 1") == [(1,)]
    (key_hash,) = found
    other = await books.customer()
    assert await keys.try_hash(books.db, other.account_id) != key_hash
    for scope in (Scope.CHAT, Scope.TTS):
        verified = await keys.verify(books.db, UnverifiedCaller(key_hash, scope))
        assert (verified.key.account_id, verified.key.name) == (owner.account_id, keys.TRY_NAME)


@each_database
async def test_an_internal_key_is_not_listed_and_not_changed(books: Books) -> None:
    owner = await books.customer()
    await keys.try_hash(books.db, owner.account_id)
    listed, internal = await store.of_account(books.db, owner.account_id)
    assert (listed.internal, internal.internal) == (0, 1)
    assert await store.page(books.db, owner.account_id, ID_MAX, 10) == [listed]
    for change in (
        perform(books.db, RevokeKey(key=str(internal.id))),
        perform(books.db, RenameKey(key=str(internal.id), name="mine")),
        perform(books.db, RollKey(key=str(internal.id), grace="1d")),
    ):
        with pytest.raises(CommandError, match="There is no key"):
            await change


LANES = 6


@pytest.mark.parametrize("refuse", [revoke, disable])
@each_database
async def test_calls_after_a_revocation_are_refused_under_load(
    books: Books, refuse: Callable[[Database, Customer], Awaitable[None]]
) -> None:
    """Two writers, as two processes have them, and a third connection that revokes."""
    customer = await books.customer(units=100_000)
    charged: list[float] = []
    refused: list[float] = []

    async with (
        books.second_process() as other,
        books.second_process() as third,
        ledger_service_on(books.db) as one,
        ledger_service_on(other) as two,
    ):

        async def lane(service: LedgerService) -> None:
            while len(refused) < 50:
                began = time.monotonic()
                outcome = await service.commits.charge(charge_of(customer), 60)
                if isinstance(outcome, Charged):
                    charged.append(began)
                else:
                    assert outcome == KEY_REFUSED
                    refused.append(began)

        lanes = asyncio.gather(*[lane(service) for service in (one, two) for _ in range(LANES)])
        await until(lambda: len(charged) >= 50, "many calls are charged")
        await refuse(third, customer)
        returned = time.monotonic()
        await lanes
    assert [began for began in charged if began > returned] == []
    assert await books.balance(customer) == 100_000 - len(charged)

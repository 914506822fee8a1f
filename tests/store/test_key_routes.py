"""Keys that are limited to routes, in the batch and in the commands that change them."""

import pytest

from myna.actions.keys import IssueKey, RevokeKey, RollKey, SetKeyRoutes
from myna.actions.routes import AddRoute, RemoveRoute, SetRoute
from myna.errors import CommandError
from myna.store.batch import ChargeOutcome, ChargeRefused, RefusalReason, Replayed
from myna.store.queries import config as store
from myna.store.queries import keys as key_store
from myna.store.queries import ledger
from tests.rig.actors import perform
from tests.store.books import Books, Customer, charge_of, charged_of, idempotency_key_of, keep_of

NOT_ALLOWED = ChargeRefused(RefusalReason.ROUTE)


async def routed(books: Books, *names: str) -> Customer:
    customer = await books.customer(units=10)
    await perform(books.db, SetKeyRoutes(key=str(customer.key_id), route=tuple(names)))
    return customer


async def outcome(books: Books, customer: Customer, **changes: object) -> ChargeOutcome:
    (found,) = await books.charge(charge_of(customer, **changes))
    return found


async def test_a_key_is_charged_only_on_its_routes(books: Books) -> None:
    customer = await routed(books, "svc-chat", "tts-1")
    assert await outcome(books, customer, route="svc-chat") == charged_of(customer, 9)
    for route in ("svc-agent", "", "svc-cha", "SVC-CHAT"):
        assert await outcome(books, customer, route=route) == NOT_ALLOWED
    assert await outcome(books, customer, route="tts-1") == charged_of(customer, 8)
    other = await books.second_key(customer)
    assert await outcome(books, other, route="svc-agent") == charged_of(other, 7)
    assert await books.balance(customer) == 7


async def test_a_call_has_the_name_of_its_route(books: Books) -> None:
    await books.opened(await books.customer(), route="gpt-*")
    assert await books.sql("SELECT route FROM calls") == [("gpt-*",)]


async def test_under_another_configuration_the_route_is_decided_again(books: Books) -> None:
    customer = await routed(books, "tts-1")
    stale = ChargeRefused(RefusalReason.STALE)
    assert await outcome(books, customer, route="svc-chat", config_version=99) == stale


async def test_a_stored_response_of_another_route_is_refused(books: Books) -> None:
    customer = await books.customer()
    order = idempotency_key_of()
    await books.end(
        keep_of(await books.opened(customer, route="svc-chat", idempotency_key=order), "the answer")
    )
    other = await books.second_key(customer)
    reader = await key_store.by_hash(books.db, other.key_hash)
    assert reader is not None

    async def read() -> ledger.StoredResponse | None:
        return await ledger.stored_response(books.db, reader.key, order.key, order.fingerprint)

    for routes, allowed in ((("svc-agent",), False), (("svc-chat",), True), (None, True)):
        await perform(books.db, SetKeyRoutes(key=str(other.key_id), route=routes, any=routes is None))
        found = await outcome(books, other, route="svc-chat", idempotency_key=order)
        assert found == (Replayed("the answer") if allowed else NOT_ALLOWED)
        assert bool(await read()) is allowed


async def test_a_rolled_key_has_the_routes_of_the_old_one(books: Books) -> None:
    customer = await routed(books, "tts-1", "svc-chat")
    rolled = await perform(books.db, RollKey(key=str(customer.key_id), grace="1s"))
    assert await store.routes_of_key(books.db, rolled.issued.id) == ("svc-chat", "tts-1")


async def test_a_key_is_only_limited_to_routes_that_exist(books: Books) -> None:
    customer = await books.customer()
    with pytest.raises(CommandError, match="no route 'gpt-4'"):
        await perform(books.db, SetKeyRoutes(key=str(customer.key_id), route=("tts-1", "gpt-4")))
    with pytest.raises(CommandError, match="no route 'gpt-4'"):
        await perform(books.db, IssueKey(account=customer.name, route=("gpt-4",)))
    assert await store.routes_of_key(books.db, customer.key_id) is None
    assert len(await key_store.of_account(books.db, customer.account_id)) == 1


async def test_a_removed_route_leaves_the_keys_that_were_limited_to_it(books: Books) -> None:
    route = AddRoute(name="gpt-4", units=1)
    await perform(books.db, route)
    customer = await routed(books, "gpt-4")
    await perform(books.db, RemoveRoute(name="gpt-4"))
    await perform(books.db, route)
    assert await store.routes_of_key(books.db, customer.key_id) == ()
    current = await store.version(books.db)
    assert await outcome(books, customer, route="gpt-4", config_version=current) == NOT_ALLOWED
    assert await outcome(books, customer, route="svc-chat", config_version=current) == NOT_ALLOWED


async def test_each_change_of_a_route_makes_older_configurations_stale(books: Books) -> None:
    before = await store.version(books.db)
    route = AddRoute(name="gpt-4", units=3, upstream_model="m", intent=True)
    await perform(books.db, route)
    assert (await store.load(books.db)).routes[0].units == 3
    await perform(books.db, SetRoute(name="gpt-4", units=4))
    (row,) = (await store.load(books.db)).routes
    assert (row.units, row.upstream_model, row.intent, row.channels) == (4, "m", 1, ())
    await perform(books.db, RemoveRoute(name="gpt-4"))
    assert await store.version(books.db) == before + 3


async def test_revoked_keys_do_not_count_among_the_keys_of_a_route(books: Books) -> None:
    assert await store.keys_limited_to_routes(books.db) == {}
    customer = await routed(books, "svc-chat", "tts-1")
    await routed(books, "tts-1")
    assert await store.keys_limited_to_routes(books.db) == {"svc-chat": 1, "tts-1": 2}
    await perform(books.db, RevokeKey(key=str(customer.key_id)))
    assert await store.keys_limited_to_routes(books.db) == {"tts-1": 1}

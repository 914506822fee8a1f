"""Stored responses: whose they are, what they continue, and when they are deleted."""

from myna.config import DAY_MS
from myna.store.queries import site
from myna.store.queries import stored_responses as store
from myna.store.queries.stored_responses import StoredResponse
from tests.store.books import Books, Customer

PLENTY = 10_000


async def put(books: Books, customer: Customer, name: str, previous: str | None = None) -> StoredResponse:
    row = StoredResponse(name, previous, f'["{name}"]'.encode(), b"{}" * 50)
    await books.db.transaction(lambda db: store.put(db, customer.account_id, row))
    return row


async def names(books: Books, customer: Customer, name: str, bytes_max: int = PLENTY) -> list[str]:
    return [row.id for row in await store.conversation(books.db, customer.account_id, name, bytes_max)]


async def clean(books: Books, keep_ms: int, count: int = 100) -> int:
    return await books.db.transaction(lambda db: store.delete_old(db, keep_ms, count))


async def test_a_response_is_its_accounts_only(books: Books) -> None:
    owner, other = await books.customer(), await books.customer()
    first = await put(books, owner, "resp_1")
    second = await put(books, owner, "resp_2", "resp_1")
    assert await store.one(books.db, owner.account_id, "resp_1") == first
    several = await store.several(books.db, owner.account_id, ["resp_2", "x", "resp_1"], PLENTY)
    assert several == {"resp_2": second, "resp_1": first}
    assert list(await store.several(books.db, owner.account_id, ["resp_2", "resp_1"], 1)) == ["resp_2"]
    assert await store.conversation(books.db, owner.account_id, "resp_2", PLENTY) == [first, second]

    assert await store.one(books.db, other.account_id, "resp_1") is None
    assert await store.several(books.db, other.account_id, ["resp_1"], PLENTY) == {}
    assert await names(books, other, "resp_2") == []
    assert not await books.db.transaction(lambda db: store.delete(db, other.account_id, "resp_1"))
    await put(books, other, "resp_3", "resp_2")  # it refers to another account's
    assert await names(books, other, "resp_3") == ["resp_3"]

    assert await books.db.transaction(lambda db: store.delete(db, owner.account_id, "resp_1"))
    assert await names(books, owner, "resp_2") == ["resp_2"]


async def test_a_conversation_is_read_as_far_back_as_its_limit(books: Books) -> None:
    customer = await books.customer()
    for number in range(1, 5):
        row = await put(books, customer, f"resp_{number}", f"resp_{number - 1}" if number > 1 else None)
    assert await names(books, customer, "resp_4") == ["resp_1", "resp_2", "resp_3", "resp_4"]
    assert await names(books, customer, "resp_4", row.size_bytes) == ["resp_3", "resp_4"]
    assert await names(books, customer, "resp_2") == ["resp_1", "resp_2"]


async def test_a_conversation_is_deleted_once_its_last_response_is_old(books: Books) -> None:
    await books.stop_clock()
    customer = await books.customer()
    for name, previous in [("resp_1", None), ("resp_2", "resp_1"), ("resp_3", None)]:
        await put(books, customer, name, previous)
    await books.move_clock(DAY_MS)
    await put(books, customer, "resp_4", "resp_2")
    assert await clean(books, DAY_MS + 1) == 0
    assert await clean(books, DAY_MS) == 1
    assert await names(books, customer, "resp_3") == []
    assert await names(books, customer, "resp_4") == ["resp_1", "resp_2", "resp_4"]
    await books.move_clock(DAY_MS)
    assert [await clean(books, DAY_MS) for _ in range(4)] == [1, 1, 1, 0]


async def test_the_responses_of_an_account_are_deleted_with_it(books: Books) -> None:
    """No command deletes an account, and an entry in the ledger can't be deleted: this one has none."""
    await books.sql("INSERT INTO accounts (name, email, operator, created_at) VALUES ('ann', '', 0, 1)")
    ((account_id,),) = await books.sql("SELECT id FROM accounts WHERE name = 'ann'")
    row = StoredResponse("resp_1", None, b"[]", b"{}")
    await books.db.transaction(lambda db: store.put(db, account_id, row))
    await books.sql("DELETE FROM accounts WHERE id = $1", account_id)
    assert await books.sql("SELECT count(*) FROM stored_responses") == [(0,)]


async def test_the_bytes_count_in_the_storage_of_the_account(books: Books) -> None:
    owner, other = await books.customer(), await books.customer()
    size_bytes = sum([(await put(books, owner, name)).size_bytes for name in ("resp_1", "resp_2")])
    assert await site.stored_bytes(books.db, owner.account_id) == size_bytes
    assert await site.stored_bytes(books.db, other.account_id) == 0
    assert await site.accounts_that_store(books.db, size_bytes) == {owner.account_id: size_bytes}

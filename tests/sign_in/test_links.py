"""One-time links: the first operator, invitations and resets."""

import pytest

from myna.accounts import accounts
from myna.accounts.sign_in import links, passwords, sessions
from myna.accounts.sign_in.links import LIFE_MS, NOT_VALID, NewAccount, Purpose
from myna.actions.accounts import DisableAccount, InviteAccount, ResetAccount
from myna.errors import CommandError
from myna.server.maintenance import delete_expired_sign_ins
from myna.store.queries import sessions as session_store
from myna.store.queries.accounts import activity_page
from tests.rig.actors import perform
from tests.sign_in.conftest import (
    ADDRESS,
    BROWSER,
    OPERATOR,
    OTHER_PASSWORD,
    PASSWORD,
    at_once,
    person,
    session_of,
    set_password,
    signed_in,
)
from tests.store.books import Books
from tests.store.fixtures import each_database

FIRST, INVITE, RESET = Purpose.FIRST, Purpose.INVITE, Purpose.RESET


async def link(books: Books, purpose: Purpose, name: str = "") -> str:
    if not name:
        return await links.create_first(books.db)
    action = InviteAccount if purpose is INVITE else ResetAccount
    return await perform(books.db, action(name=name), by=OPERATOR)


async def use(books: Books, token: str, plain: str = PASSWORD, new: NewAccount | None = None) -> str:
    return await links.consume(books.db, token, plain, address=ADDRESS, user_agent=BROWSER, new=new)


async def commands(books: Books) -> list[str]:
    return [row.command for row in await activity_page(books.db)]


async def test_an_invitation_sets_the_first_password_and_signs_in(books: Books) -> None:
    ann = await person(books, password="")
    token = await link(books, INVITE, "ann")
    found = await links.find(books.db, token)
    assert found is not None and (found.purpose, found.account) == (INVITE, ann)
    session = await session_of(books, await use(books, token))
    assert session.account.name == "ann"
    assert (await passwords.verify(books.db, "ann", PASSWORD, ADDRESS)).account.id == ann.id
    assert await links.find(books.db, token) is None
    used, made = (await activity_page(books.db, prefix="account invite"))[:2]
    assert (used.actor, used.address) == ("ann", ADDRESS)
    assert used.command == "myna account invite ann # the link was used to set the password"
    assert (made.actor, made.command) == (OPERATOR.name, "myna account invite ann")


async def test_a_reset_ends_all_sessions_and_replaces_the_password(books: Books) -> None:
    ann = await person(books)
    before = await signed_in(books)
    token = await link(books, RESET, "ann")
    await session_of(books, before)
    after = await use(books, token, OTHER_PASSWORD)
    assert await sessions.find(books.db, before) is None
    await session_of(books, after)
    assert (await passwords.verify(books.db, "ann", OTHER_PASSWORD, ADDRESS)).account.id == ann.id


@each_database
@pytest.mark.parametrize("purpose", [FIRST, RESET])
async def test_of_twenty_uses_at_once_one_sets_its_password(books: Books, purpose: Purpose) -> None:
    new = NewAccount("ann") if purpose is FIRST else None
    token = await link(books, purpose, "" if new else (await person(books)).name)
    chosen = [f"{OTHER_PASSWORD} {number}" for number in range(20)]
    done, failed = await at_once(use(books, token, plain, new) for plain in chosen)
    assert len(done) == 1
    assert [str(error) for error in failed] == [NOT_VALID] * 19
    ann = await accounts.find(books.db, "ann")
    assert [one.account_id for one in await session_store.of_account(books.db, ann.id)] == [ann.id]


@each_database
async def test_a_link_expires(books: Books) -> None:
    await person(books, password="")
    await books.stop_clock()
    token = await link(books, INVITE, "ann")
    await books.move_clock(LIFE_MS[INVITE] - 1)
    assert await links.find(books.db, token) is not None
    await books.move_clock(1)
    assert await links.find(books.db, token) is None
    with pytest.raises(CommandError, match="has expired"):
        await use(books, token)
    await books.db.transaction(delete_expired_sign_ins)
    assert await books.sql("SELECT * FROM links") == []


async def test_a_link_that_expires_while_the_password_is_hashed_is_refused(
    books: Books, monkeypatch: pytest.MonkeyPatch
) -> None:
    await person(books, password="")
    token = await link(books, INVITE, "ann")
    hash_of = passwords.hash_of

    async def late(plain: str, *, name: str) -> str:
        await books.move_clock(LIFE_MS[INVITE])
        return await hash_of(plain, name=name)

    monkeypatch.setattr(passwords, "hash_of", late)
    with pytest.raises(CommandError, match="has expired"):
        await use(books, token)


async def test_a_newer_link_and_a_new_password_replace_a_link(books: Books) -> None:
    await person(books)
    older, newer = await link(books, RESET, "ann"), await link(books, RESET, "ann")
    assert await links.find(books.db, older) is None
    with pytest.raises(CommandError, match=NOT_VALID):
        await use(books, older)
    await set_password(books, "ann", OTHER_PASSWORD)
    with pytest.raises(CommandError, match=NOT_VALID):
        await use(books, newer)


async def test_a_link_is_refused_once_its_account_is_disabled(books: Books) -> None:
    await person(books, password="")
    token = await link(books, INVITE, "ann")
    await perform(books.db, DisableAccount(name="ann", force=True))
    assert await links.find(books.db, token) is None
    with pytest.raises(CommandError, match="disabled"):
        await link(books, INVITE, "ann")
    with pytest.raises(CommandError, match=NOT_VALID):
        await use(books, token)


async def test_a_refused_password_leaves_the_link(books: Books) -> None:
    await person(books, password="")
    token = await link(books, INVITE, "ann")
    with pytest.raises(CommandError, match="at least 12 characters"):
        await use(books, token, "short")
    assert await use(books, token)


async def test_who_has_a_password_is_not_invited_and_who_has_none_has_nothing_to_reset(books: Books) -> None:
    await person(books)
    await person(books, "bob", password="")
    with pytest.raises(CommandError, match="has a password already"):
        await link(books, INVITE, "ann")
    with pytest.raises(CommandError, match="has no password yet"):
        await link(books, RESET, "bob")
    with pytest.raises(CommandError, match="no account 'eve'"):
        await link(books, RESET, "eve")


async def test_the_first_link_creates_an_operator_and_is_void_once_one_can_sign_in(books: Books) -> None:
    token = await link(books, FIRST)
    with pytest.raises(CommandError, match="needs a name"):
        await use(books, token)
    with pytest.raises(CommandError, match="printable"):
        await use(books, token, new=NewAccount("\n"))
    session = await session_of(books, await use(books, token, new=NewAccount("ann", "ann@example.com")))
    assert session.account.operator
    assert (await commands(books))[0] == "myna account add ann --email ann@example.com --operator"
    with pytest.raises(CommandError, match="already is an operator"):
        await link(books, FIRST)


async def test_a_first_link_ends_when_an_operator_gets_a_password(books: Books) -> None:
    token = await link(books, FIRST)
    await person(books, "bob", password=PASSWORD)
    assert await links.find(books.db, token) is not None
    await person(books, "eve", operator=True)
    assert await links.find(books.db, token) is None
    with pytest.raises(CommandError, match=NOT_VALID):
        await use(books, token, new=NewAccount("mallory"))


async def test_a_first_operator_cannot_take_the_name_of_an_account(books: Books) -> None:
    bob = await person(books, "bob", password="")
    token = await link(books, FIRST)
    with pytest.raises(CommandError, match="already is an account 'bob'"):
        await use(books, token, new=NewAccount("bob"))
    assert await accounts.find(books.db, "bob") == bob
    assert await use(books, token, new=NewAccount("ann"))


async def test_a_token_is_stored_as_a_hash_and_masked_in_an_address(books: Books) -> None:
    await person(books, password="")
    token = await link(books, INVITE, "ann")
    assert await books.sql("SELECT token_hash FROM links") == [(sessions.hash_of(token),)]
    assert (
        links.url("https://ai.example.com", token) == f"https://ai.example.com/office/welcome?token={token}"
    )
    assert not any(token in words for words in await commands(books))

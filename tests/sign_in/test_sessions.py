"""Sessions: how they begin, and everything that ends them; and the preferences that they carry."""

import asyncio

import pytest

from myna.accounts.sign_in import passwords, sessions
from myna.accounts.sign_in.sessions import SEEN_EVERY_MS, SESSIONS_MAX, STEP_UP_MS
from myna.accounts.throttle import SignInRefused
from myna.actions.accounts import DisableAccount, EnableAccount, SetPreferences, SignOut
from myna.errors import CommandError
from myna.server.maintenance import delete_expired_sign_ins
from myna.store.queries import accounts
from myna.store.queries import sessions as session_store
from myna.store.queries.accounts import Preferences, activity_page
from myna.store.queries.sessions import IDLE_MS, LIFE_MS
from tests.rig.actors import perform
from tests.sign_in.conftest import (
    ADDRESS,
    BROWSER,
    ELSEWHERE,
    OTHER_PASSWORD,
    person,
    session_of,
    set_password,
    signed_in,
)
from tests.store.books import Books
from tests.store.fixtures import each_database


async def test_a_session_has_a_random_token_of_which_only_the_hash_is_stored(books: Books) -> None:
    ann = await person(books)
    token, other = await signed_in(books), await signed_in(books)
    assert token != other and len(bytes.fromhex(token.removeprefix(sessions.SESSION_PREFIX))) * 8 == 256
    session = await session_of(books, token)
    assert session.account.id == ann.id
    assert not session.second_factor and session.stepped_up and session.language == ""
    rows = await books.sql("SELECT * FROM sessions ORDER BY id")
    assert rows[0][1] == session.token_hash == sessions.hash_of(token)
    assert not any(token.removeprefix(sessions.SESSION_PREFIX) in str(value) for row in rows for value in row)


async def test_an_unknown_token_has_no_session(books: Books) -> None:
    await person(books)
    await signed_in(books)
    for token in ("", "x", sessions.SESSION_PREFIX, "\ud800", "é" * 9999):
        assert await sessions.find(books.db, token) is None


async def test_a_session_ends_when_it_is_not_used(books: Books) -> None:
    await person(books)
    await books.stop_clock()
    token = await signed_in(books)
    await books.move_clock(IDLE_MS - 1)
    await session_of(books, token)
    await books.move_clock(IDLE_MS - 1)
    await session_of(books, token)
    await books.move_clock(IDLE_MS)
    assert await sessions.find(books.db, token) is None


async def test_a_session_ends_however_often_it_is_used(books: Books) -> None:
    await person(books)
    await books.stop_clock()
    token = await signed_in(books)
    for _ in range(LIFE_MS // (IDLE_MS // 2) - 1):
        await books.move_clock(IDLE_MS // 2)
        await session_of(books, token)
    await books.move_clock(IDLE_MS // 2)
    assert await sessions.find(books.db, token) is None


@each_database
async def test_the_last_use_is_written_at_most_once_a_minute(books: Books) -> None:
    await person(books)
    await books.stop_clock()
    token = await signed_in(books)
    began = (await session_of(books, token)).seen_at
    await books.move_clock(SEEN_EVERY_MS - 1)
    await session_of(books, token)
    assert (await session_of(books, token)).seen_at == began
    await books.move_clock(1)
    await session_of(books, token)
    assert (await session_of(books, token)).seen_at == began + SEEN_EVERY_MS


@each_database
async def test_the_sessions_of_a_disabled_account_end_for_good(books: Books) -> None:
    ann = await person(books)
    token = await signed_in(books)
    await perform(books.db, DisableAccount(name="ann", force=True))
    assert await sessions.find(books.db, token) is None
    with pytest.raises(SignInRefused):
        await sessions.open(books.db, ann.id, ADDRESS, BROWSER)
    await perform(books.db, EnableAccount(name="ann"))
    assert await sessions.find(books.db, token) is None


@each_database
async def test_a_session_of_an_account_that_is_disabled_otherwise_ends_too(books: Books) -> None:
    """As by a process of an earlier version, which knows no sessions."""
    ann = await person(books)
    token = await signed_in(books)
    await books.sql("UPDATE accounts SET disabled_at = now_ms() WHERE id = $1", ann.id)
    assert await sessions.find(books.db, token) is None


async def test_a_new_password_ends_all_sessions(books: Books) -> None:
    await person(books)
    await person(books, "bob")
    tokens_of_ann = [await signed_in(books) for _ in range(3)]
    of_bob = await signed_in(books, "bob")
    await set_password(books, "ann", OTHER_PASSWORD)
    assert [await sessions.find(books.db, token) for token in tokens_of_ann] == [None] * 3
    await session_of(books, of_bob)


@each_database
async def test_a_sign_in_with_the_old_password_during_its_change_is_refused(
    books: Books, monkeypatch: pytest.MonkeyPatch
) -> None:
    ann = await person(books)
    verified = asyncio.Event()
    changed = asyncio.Event()
    verify = passwords.verify

    async def slow(*args: object) -> object:
        candidate = await verify(*args)  # type: ignore[arg-type]
        verified.set()
        await changed.wait()
        return candidate

    monkeypatch.setattr(passwords, "verify", slow)
    signing_in = asyncio.create_task(signed_in(books))
    await verified.wait()
    await set_password(books, "ann", OTHER_PASSWORD)
    changed.set()
    with pytest.raises(SignInRefused):
        await signing_in
    assert await session_store.of_account(books.db, ann.id) == []


@each_database
async def test_a_session_can_be_closed_and_so_can_others_of_the_account(books: Books) -> None:
    ann, _ = await person(books), await person(books, "bob")
    mine, other, third = [await signed_in(books) for _ in range(3)]
    of_bob = await signed_in(books, "bob")
    await sessions.close(books.db, await session_of(books, third))
    assert await sessions.find(books.db, third) is None
    listed = await session_store.of_account(books.db, ann.id)
    assert [(row.address, row.user_agent) for row in listed] == [(ADDRESS, BROWSER)] * 2
    bobs = (await session_of(books, of_bob)).id
    with pytest.raises(CommandError, match="no such session"):
        await perform(books.db, SignOut(name="ann", id=bobs))
    assert await perform(books.db, SignOut(name="bob", id=bobs)) == 1
    assert await sessions.find(books.db, of_bob) is None
    own = (await session_of(books, mine)).token_hash
    assert await perform(books.db, SignOut(name="ann", session=own), owner_id=ann.id) == 1
    assert await sessions.find(books.db, other) is None
    await session_of(books, mine)
    assert await perform(books.db, SignOut(name="ann")) == 1
    assert await sessions.find(books.db, mine) is None
    assert [row.command for row in await activity_page(books.db, prefix="account sign-out")] == [
        "myna account sign-out ann",
        "myna account sign-out ann # all but the session of this change",
        f"myna account sign-out bob --id {bobs}",
    ]


async def test_a_password_that_is_entered_again_steps_up_and_replaces_the_token(books: Books) -> None:
    await person(books)
    await books.stop_clock()
    token = await signed_in(books)
    await books.move_clock(STEP_UP_MS - 1)
    assert (await session_of(books, token)).stepped_up
    await books.move_clock(1)
    before = await session_of(books, token)
    assert not before.stepped_up
    newer = await sessions.verified(books.db, before)
    assert await sessions.find(books.db, token) is None
    after = await session_of(books, newer)
    assert after.stepped_up and (after.id, after.created_at) == (before.id, before.created_at)
    await sessions.close(books.db, after)
    with pytest.raises(SignInRefused):
        await sessions.verified(books.db, after)


@each_database
async def test_an_account_has_a_limited_number_of_sessions(books: Books) -> None:
    ann = await person(books)
    every = [await sessions.open(books.db, ann.id, ADDRESS, BROWSER) for _ in range(SESSIONS_MAX + 1)]
    assert len(await session_store.of_account(books.db, ann.id)) == SESSIONS_MAX
    assert await sessions.find(books.db, every[0]) is None
    await session_of(books, every[1])


async def test_a_user_agent_is_cut_and_has_no_control_characters(books: Books) -> None:
    ann = await person(books)
    await sessions.open(books.db, ann.id, ADDRESS, "a\x1b[2J\n" + "b" * 999)
    (row,) = await session_store.of_account(books.db, ann.id)
    assert row.user_agent == ("a[2J" + "b" * 999)[:200]


@each_database
async def test_preferences_change_one_by_one_and_a_session_has_the_language(books: Books) -> None:
    ann = await person(books)
    assert await accounts.preferences_of(books.db, ann.id) == Preferences(language="", low_balance=0)
    await perform(books.db, SetPreferences(name="ann", language="zh"))
    await perform(books.db, SetPreferences(name="ann", low_balance=50))
    assert await accounts.preferences_of(books.db, ann.id) == Preferences(language="zh", low_balance=50)
    assert (await session_of(books, await signed_in(books))).language == "zh"
    said = [row.command for row in await activity_page(books.db, limit=2)]
    assert said == ["myna account set ann --low-balance 50", "myna account set ann --language zh"]


async def test_a_preference_that_is_not_possible_is_refused(books: Books) -> None:
    ann = await person(books)
    for changes in ({"language": "fr"}, {"low_balance": -1}, {"low_balance": 2**53}):
        with pytest.raises(CommandError):
            await perform(books.db, SetPreferences(name="ann", **changes))
    assert await accounts.preferences_of(books.db, ann.id) == Preferences()


@each_database
async def test_maintenance_deletes_expired_sessions(books: Books) -> None:
    await person(books)
    await books.stop_clock()
    await signed_in(books)
    await books.move_clock(IDLE_MS - 1)
    newer = await signed_in(books, address=ELSEWHERE)
    await books.move_clock(1)
    await books.db.transaction(delete_expired_sign_ins)
    assert await books.sql("SELECT token_hash FROM sessions") == [(sessions.hash_of(newer),)]

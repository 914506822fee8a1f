"""No secret of a sign-in is in a log, an error, the activity or the text of an object."""

import logging
from functools import partial

import pyotp
import pytest

from myna.accounts.activity import Actor
from myna.accounts.sign_in import links, passwords, second_factor, sessions
from myna.accounts.sign_in.links import NewAccount
from myna.actions.accounts import ConfirmSecondFactor, ResetAccount
from myna.lib.telemetry.logs import masked
from myna.store.queries import sessions as session_store
from myna.store.queries import sign_in as password_store
from myna.store.queries.accounts import activity_page
from tests.rig.actors import perform
from tests.sign_in.conftest import ADDRESS, BROWSER, OTHER_PASSWORD, PASSWORD, set_password
from tests.store.books import Books
from tests.store.fixtures import each_database

WRONG_CODES = ("000000", "abcd-efgh")


@each_database
async def test_nothing_said_or_shown_has_a_secret(books: Books, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    secrets: list[str] = []
    shown: list[object] = []

    async def keep(work: object) -> None:
        """Keeps the text of an error."""
        try:
            await work  # type: ignore[misc]
        except Exception as error:
            shown.append(repr(error))

    first = await links.create_first(books.db)
    shown.append(await links.find(books.db, first))
    new = NewAccount("ann", "ann@example.com")
    used = {"address": ADDRESS, "user_agent": BROWSER}
    session_token = await links.consume(books.db, first, PASSWORD, new=new, **used)  # type: ignore[arg-type]
    await keep(links.consume(books.db, first, PASSWORD, new=new, **used))  # type: ignore[arg-type]
    session = await sessions.find(books.db, session_token)
    assert session is not None
    by = Actor(account_id=session.account.id, name="ann", address=ADDRESS)
    enrolment = await second_factor.begin(books.db, session.account)
    confirm = partial(ConfirmSecondFactor, name="ann", session=session.token_hash)
    for code in WRONG_CODES:
        await keep(perform(books.db, confirm(code=code), by=by))
    await books.stop_clock()
    ((now,),) = await books.sql("SELECT now_ms()")
    code = pyotp.TOTP(enrolment.secret).at(now // 1000)
    codes = await perform(books.db, confirm(code=code), by=by)
    for plain in (OTHER_PASSWORD, PASSWORD + " "):
        await keep(passwords.verify(books.db, "ann", plain, ADDRESS))
        await keep(passwords.confirm(books.db, session.account, plain, ADDRESS))
        await keep(passwords.check(plain[:9], name="ann", email=""))
    pending = await sessions.sign_in(books.db, "ann@example.com", PASSWORD, ADDRESS, BROWSER)
    for wrong in (*WRONG_CODES, code):
        await keep(second_factor.complete(books.db, pending, wrong, ADDRESS))
    full = await second_factor.complete(books.db, pending, codes[0], ADDRESS)
    stepped = await sessions.find(books.db, full)
    assert stepped is not None
    newer = await sessions.verified(books.db, stepped)
    reset = await perform(books.db, ResetAccount(name="ann"))
    await keep(set_password(books, "ann", OTHER_PASSWORD, by))

    shown += [session, stepped, enrolment, new, await session_store.of_account(books.db, by.account_id)]
    shown.append(await password_store.password_of(books.db, by.account_id))
    shown.append(await password_store.second_factor_of(books.db, by.account_id))
    shown += [row.command for row in await activity_page(books.db)]
    ((password_hash,),) = await books.sql("SELECT hash FROM passwords")
    secrets += [PASSWORD, OTHER_PASSWORD, PASSWORD[:9], password_hash, enrolment.secret, *codes, code]
    secrets += [first, session_token, pending, full, newer, reset, *WRONG_CODES]
    said = caplog.text + " ".join(map(repr, shown))
    assert len(shown) > 15
    for event in ("signed in from", "completed its sign-in from"):
        assert f"account {by.account_id} {event} {ADDRESS}" in caplog.text
    for event in ("sign-in", "confirmation of the password", "second factor"):
        assert f"a {event} from {ADDRESS}" in caplog.text
    for secret in secrets:
        assert secret not in said
        assert secret.removeprefix(sessions.SESSION_PREFIX).removeprefix(sessions.LINK_PREFIX) not in said


@pytest.mark.parametrize("prefix", [sessions.SESSION_PREFIX, sessions.LINK_PREFIX])
def test_a_token_in_a_log_is_masked(prefix: str) -> None:
    token = sessions.new_token(prefix)
    kept = token[: len(prefix) + 6]
    assert masked(f"GET /office/welcome?token={token} 200") == f"GET /office/welcome?token={kept}*** 200"

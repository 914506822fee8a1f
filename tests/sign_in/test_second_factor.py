"""The second factor: enrolment, sign-in in two steps, recovery codes, removal."""

import re

import pyotp
import pytest

from myna.accounts.activity import Actor
from myna.accounts.sign_in import links, second_factor, sessions
from myna.accounts.sign_in.second_factor import STEP_S, SecondFactor
from myna.accounts.sign_in.sessions import Session
from myna.accounts.throttle import WRONG_CODE, SignInRefused, TooManyAttempts
from myna.actions.accounts import (
    ConfirmSecondFactor,
    DisableAccount,
    NewRecoveryCodes,
    RemoveSecondFactor,
    ResetAccount,
)
from myna.errors import CommandError
from myna.server.maintenance import delete_expired_sign_ins
from myna.store.queries import sessions as session_store
from myna.store.queries.accounts import AccountRow, activity_page
from myna.store.queries.sessions import PENDING_MS
from tests.rig.actors import perform
from tests.sign_in.conftest import (
    ADDRESS,
    BROWSER,
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

STEP_MS = STEP_S * 1000


class Phone:
    """A person's app, with the clock of the books."""

    def __init__(self, books: Books, secret: str) -> None:
        self._books = books
        self._totp = pyotp.TOTP(secret)

    async def code(self, steps: int = 0) -> str:
        ((now,),) = await self._books.sql("SELECT now_ms()")
        return self._totp.at(now // 1000 + steps * STEP_S)


class Ann:
    """An account with a second factor, a signed-in session from before, and the recovery codes."""

    def __init__(self, account: AccountRow, phone: Phone, session: Session, codes: list[str]) -> None:
        self.account = account
        self.phone = phone
        self.session = session
        self.codes = codes


@pytest.fixture
async def ann(books: Books) -> Ann:
    account = await person(books)
    session = await session_of(books, await signed_in(books))
    await books.stop_clock()
    phone = Phone(books, (await second_factor.begin(books.db, account)).secret)
    codes = await confirmed(books, session, await phone.code())
    await books.move_clock(2 * STEP_MS)
    return Ann(account, phone, session, codes)


async def half_signed_in(books: Books) -> str:
    token = await signed_in(books)
    assert await sessions.find(books.db, token) is None
    assert await sessions.find_pending(books.db, token) is not None
    return token


async def confirmed(books: Books, session: Session, code: str) -> list[str]:
    """The recovery codes of a second factor that this code turns on."""
    account = session.account
    by = Actor(account_id=account.id, name=account.name, address=ADDRESS)
    action = ConfirmSecondFactor(name=account.name, code=code, session=session.token_hash)
    return await perform(books.db, action, by=by, owner_id=account.id)


async def completed(books: Books, code: str) -> str:
    """The token of a session that the password and this code begin."""
    return await second_factor.complete(books.db, await half_signed_in(books), code, ADDRESS)


async def refused(books: Books, code: str) -> None:
    token = await half_signed_in(books)
    with pytest.raises(SignInRefused, match=WRONG_CODE):
        await second_factor.complete(books.db, token, code, ADDRESS)
    assert await sessions.find(books.db, token) is None


async def test_a_second_factor_is_off_until_a_code_confirms_it(books: Books) -> None:
    account = await person(books)
    session, other = [await session_of(books, await signed_in(books)) for _ in range(2)]
    enrolment = await second_factor.begin(books.db, account)
    assert enrolment.uri == f"otpauth://totp/Myna:ann?secret={enrolment.secret}&issuer=Myna"
    assert repr(enrolment) == "Enrolment()"
    await session_of(books, await signed_in(books))
    for wrong in ("", "12345", "abcdef", "１２３４５６", "0" * 99):
        with pytest.raises(CommandError, match="code is wrong"):
            await confirmed(books, session, wrong)
    assert await second_factor.of_account(books.db, account.id) == SecondFactor(on=False, codes_left=0)
    await books.stop_clock()
    code = await Phone(books, enrolment.secret).code()
    codes = await confirmed(books, session, f" {code[:3]} {code[3:]} ")
    assert len({*codes}) == 10 and all(re.fullmatch(r"([a-z2-9]{4}-){5}[a-z2-9]{4}", one) for one in codes)
    assert await second_factor.of_account(books.db, account.id) == SecondFactor(on=True, codes_left=10)
    assert [one.id for one in await session_store.of_account(books.db, account.id)] == [session.id]
    assert other.id != session.id
    with pytest.raises(CommandError, match="already"):
        await second_factor.begin(books.db, account)
    with pytest.raises(CommandError, match="begin again"):
        await confirmed(books, session, code)
    await refused(books, code)


async def test_the_secret_is_shown_again_only_to_who_has_it(books: Books) -> None:
    account = await person(books)
    enrolment = await second_factor.begin(books.db, account)
    assert await second_factor.unconfirmed(books.db, account, "") is None
    assert await second_factor.unconfirmed(books.db, account, "é" * 32) is None
    assert await second_factor.unconfirmed(books.db, account, enrolment.secret) == enrolment


async def test_a_session_that_has_ended_turns_no_second_factor_on(books: Books) -> None:
    """Else someone whose session was ended could lock the owner out."""
    account = await person(books)
    session = await session_of(books, await signed_in(books))
    await books.stop_clock()
    code = await Phone(books, (await second_factor.begin(books.db, account)).secret).code()
    await set_password(books, "ann", OTHER_PASSWORD)
    with pytest.raises(SignInRefused, match="has ended"):
        await confirmed(books, session, code)
    assert not (await second_factor.of_account(books.db, account.id)).on


async def test_a_sign_in_waits_for_a_code_and_gets_a_new_token(books: Books, ann: Ann) -> None:
    pending = await half_signed_in(books)
    token = await second_factor.complete(books.db, pending, await ann.phone.code(), ADDRESS)
    session = await session_of(books, token)
    assert session.second_factor and session.account.id == ann.account.id
    assert token != pending
    assert await sessions.find(books.db, pending) is None
    assert await sessions.find_pending(books.db, pending) is None
    with pytest.raises(SignInRefused, match="sign in again"):
        await second_factor.complete(books.db, pending, await ann.phone.code(1), ADDRESS)


@each_database
async def test_a_code_is_used_once_and_so_are_those_before_it(books: Books, ann: Ann) -> None:
    code, earlier = await ann.phone.code(), await ann.phone.code(-1)
    assert await completed(books, code)
    await refused(books, code)
    await refused(books, earlier)
    await books.move_clock(STEP_MS)
    await refused(books, code)
    assert await completed(books, await ann.phone.code())


@pytest.mark.parametrize(("steps", "valid"), [(-2, False), (-1, True), (1, True), (2, False)])
async def test_a_clock_may_differ_by_one_step(books: Books, ann: Ann, steps: int, valid: bool) -> None:
    await books.move_clock(5 * STEP_MS)
    code = await ann.phone.code(steps)
    await (completed(books, code) if valid else refused(books, code))


@each_database
async def test_of_ten_uses_of_a_code_at_once_one_signs_in(books: Books, ann: Ann) -> None:
    waiting = [await half_signed_in(books) for _ in range(4)]
    code = await ann.phone.code()
    done, failed = await at_once(second_factor.complete(books.db, token, code, ADDRESS) for token in waiting)
    assert (len(done), len(failed)) == (1, 3)


async def test_a_recovery_code_is_used_once_as_it_is_typed(books: Books, ann: Ann) -> None:
    typed = ann.codes[3].upper().replace("-", " ")
    assert await completed(books, typed)
    await refused(books, ann.codes[3])
    assert (await second_factor.of_account(books.db, ann.account.id)).codes_left == 9
    newer = await perform(books.db, NewRecoveryCodes(name="ann"))
    await refused(books, ann.codes[4])
    assert await completed(books, newer[4])


@each_database
async def test_a_recovery_code_of_another_account_is_refused(books: Books, ann: Ann) -> None:
    await person(books, "bob")
    bob = await session_of(books, await signed_in(books, "bob"))
    phone = Phone(books, (await second_factor.begin(books.db, bob.account)).secret)
    codes = await confirmed(books, bob, await phone.code())
    await refused(books, codes[0])
    assert (await second_factor.of_account(books.db, bob.account.id)).codes_left == 10


async def test_codes_are_throttled_for_the_account(books: Books, ann: Ann) -> None:
    for _ in range(5):
        await refused(books, "not a code")
    with pytest.raises(TooManyAttempts):
        await completed(books, await ann.phone.code())
    await books.move_clock(1000)
    assert await completed(books, await ann.phone.code())


async def test_a_sign_in_that_waits_too_long_ends(books: Books, ann: Ann) -> None:
    pending = await half_signed_in(books)
    await books.move_clock(PENDING_MS)
    with pytest.raises(SignInRefused, match="took too long"):
        await second_factor.complete(books.db, pending, await ann.phone.code(), ADDRESS)
    await books.db.transaction(delete_expired_sign_ins)
    assert [row[0] for row in await books.sql("SELECT id FROM sessions")] == [ann.session.id]


async def test_a_pending_session_ends_with_the_password_and_with_the_account(books: Books, ann: Ann) -> None:
    pending = await half_signed_in(books)
    await set_password(books, "ann", PASSWORD)
    assert await sessions.find_pending(books.db, pending) is None
    pending = await half_signed_in(books)
    await perform(books.db, DisableAccount(name="ann", force=True))
    assert await sessions.find_pending(books.db, pending) is None


async def test_a_reset_of_the_password_does_not_replace_the_second_factor(books: Books, ann: Ann) -> None:
    link = await perform(books.db, ResetAccount(name="ann"))
    token = await links.consume(books.db, link, OTHER_PASSWORD, address=ADDRESS, user_agent=BROWSER)
    assert await sessions.find(books.db, token) is None
    token = await second_factor.complete(books.db, token, await ann.phone.code(), ADDRESS)
    await session_of(books, token)


@each_database
async def test_it_can_be_removed_with_its_recovery_codes(books: Books, ann: Ann) -> None:
    await perform(books.db, RemoveSecondFactor(name="ann", remove=True))
    assert await second_factor.of_account(books.db, ann.account.id) == SecondFactor(on=False, codes_left=0)
    assert await books.sql("SELECT * FROM recovery_codes") == []
    await session_of(books, await signed_in(books))
    with pytest.raises(CommandError, match="no second factor"):
        await perform(books.db, RemoveSecondFactor(name="ann", remove=True))
    with pytest.raises(CommandError, match="no second factor"):
        await perform(books.db, NewRecoveryCodes(name="ann"))
    said = [row.command for row in await activity_page(books.db, limit=2)]
    assert said == ["myna account second-factor ann --remove", "myna account second-factor ann"]


async def test_recovery_codes_are_stored_as_hashes(books: Books, ann: Ann) -> None:
    rows = await books.sql("SELECT * FROM recovery_codes")
    assert len(rows) == 10
    said = " ".join(map(str, rows)) + " ".join(row.command for row in await activity_page(books.db))
    assert not any(code in said or code.replace("-", "") in said for code in ann.codes)

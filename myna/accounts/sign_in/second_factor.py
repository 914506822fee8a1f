"""The second factor: one-time codes of an app (TOTP, RFC 6238) and recovery codes.

off ──begin──► unconfirmed ──confirm, with a code──► on ──remove, after the password──► off

A code is valid for its 30 seconds and, since clocks differ, for one such step before and after. A code and
those before it are used up by one sign-in. A recovery code replaces a code once. The time is the database's.
"""

import hmac
import logging
import re
import secrets
from typing import Final

import pyotp
from msgspec import Struct
from pyotp.exceptions import OTPVerificationError

from myna.accounts import throttle
from myna.accounts.sign_in import sessions
from myna.accounts.throttle import WRONG_CODE, SignInRefused
from myna.errors import CommandError
from myna.store.database import Database, Queries, Transaction
from myna.store.queries import accounts
from myna.store.queries import sessions as session_store
from myna.store.queries import sign_in as store
from myna.store.queries.accounts import AccountRow
from myna.store.queries.sign_in import SecondFactorRow

log = logging.getLogger(__name__)

STEP_S: Final = 30
SKEW_STEPS: Final = 1
ISSUER = "Myna"
RECOVERY_CODES: Final = 10
_CODE = re.compile(r"[0-9]{6}")
_LETTERS = "abcdefghjkmnpqrstuvwxyz23456789"
_GROUPS, _GROUP_CHARS = 6, 4
"""24 of 31 letters are 118 bits: enough for a hash without a salt (ASVS 6.5.2)."""


class Enrolment(Struct, frozen=True):
    """What an app needs: the secret in base32, and the same as an `otpauth` address for a QR code."""

    secret: str
    uri: str

    def __repr__(self) -> str:
        return "Enrolment()"


class SecondFactor(Struct, frozen=True):
    """Whether an account has a second factor, and how many of its recovery codes are left."""

    on: bool
    codes_left: int


async def of_account(db: Queries, account_id: int) -> SecondFactor:
    """The account's second factor."""
    on = await store.has_second_factor(db, account_id)
    return SecondFactor(on=on, codes_left=await store.codes_left(db, account_id) if on else 0)


async def begin(db: Database, account: AccountRow) -> Enrolment:
    """Creates a secret, to be confirmed by a code. It replaces an unconfirmed one. Raises CommandError if the
    second factor is on."""
    secret = pyotp.random_base32()
    if not await db.transaction(lambda connection: store.begin_second_factor(connection, account.id, secret)):
        raise CommandError("There is a second factor already; remove it first.")
    return _enrolment(account, secret)


async def unconfirmed(db: Queries, account: AccountRow, secret: str) -> Enrolment | None:
    """What `begin` returned with this secret, while it can be confirmed. Another session of the account may
    be a stranger's, and must not learn the secret."""
    row = await store.second_factor_of(db, account.id)
    if row is None or row.confirmed_at or not hmac.compare_digest(row.secret.encode(), secret.encode()):
        return None
    return _enrolment(account, row.secret)


async def confirm(connection: Transaction, account_id: int, session: bytes, code: str) -> list[str]:
    """Turns the second factor of a locked account on and ends its sessions but the one of this token hash.
    Returns the recovery codes, which are shown once. Raises CommandError if the code is wrong."""
    if not await session_store.mark_second_factor(connection, session):
        raise SignInRefused("The session has ended; sign in again.")
    row = await store.second_factor_of(connection, account_id)
    if row is None or row.confirmed_at:
        raise CommandError("There is no second factor to confirm; begin again.")
    step = _step_of(row, code)
    if step is None:
        raise CommandError("The code is wrong; check the clock of the device and use the next code.")
    await store.confirm_second_factor(connection, account_id, row.secret, step)
    await session_store.delete_all(connection, account_id, but=session)
    return await new_codes(connection, account_id)


async def complete(db: Database, token: str, code: str, address: str) -> str:
    """Completes a pending session with a code of the app, or with a recovery code. Returns the session's new
    token. Raises SignInRefused."""
    pending = await sessions.find_pending(db, token)
    if pending is None:
        raise SignInRefused("The sign-in took too long; sign in again.")
    account = pending.account
    subjects = throttle.of_account("second factor", account.id)
    await throttle.begin(db, subjects)
    new_token = sessions.new_token(sessions.SESSION_PREFIX)

    async def work(connection: Transaction) -> bool:
        await accounts.lock(connection, account.id)
        return await _use(connection, account.id, code) and await session_store.complete(
            connection, sessions.hash_of(token), sessions.hash_of(new_token)
        )

    if not await db.transaction(work):
        log.warning("a second factor from %s was refused, account %d", address, account.id)
        raise SignInRefused(WRONG_CODE)
    await throttle.succeeded(db, subjects)
    log.info("account %d completed its sign-in from %s with a second factor", account.id, address)
    return new_token


async def new_codes(connection: Transaction, account_id: int) -> list[str]:
    """Replaces the recovery codes of a locked account. Raises CommandError if the second factor is off."""
    if not await store.has_second_factor(connection, account_id):
        raise CommandError("There is no second factor.")
    codes = [_new_code() for _ in range(RECOVERY_CODES)]
    await store.replace_codes(connection, account_id, [_hash(one) for one in codes])
    return codes


async def _use(connection: Transaction, account_id: int, code: str) -> bool:
    """Uses a code of the app or a recovery code; False if it is wrong or was used."""
    row = await store.second_factor_of(connection, account_id)
    if row is None or not row.confirmed_at:
        return False
    if not _CODE.fullmatch("".join(code.split())):
        return await store.use_code(connection, account_id, _hash(code))
    step = _step_of(row, code)
    return step is not None and await store.use_step(connection, account_id, step)


def _step_of(row: SecondFactorRow, code: str) -> int | None:
    """The time step whose code this is; None if it is none of those that are valid now."""
    digits = "".join(code.split())
    if not _CODE.fullmatch(digits):
        return None
    totp = pyotp.TOTP(row.secret, interval=STEP_S)
    try:
        return totp.verify_and_get_timecode(digits, for_time=row.now // 1000, valid_window=SKEW_STEPS)
    except OTPVerificationError:
        return None


def _enrolment(account: AccountRow, secret: str) -> Enrolment:
    totp = pyotp.TOTP(secret, interval=STEP_S)
    return Enrolment(secret, totp.provisioning_uri(name=account.name, issuer_name=ISSUER))


def _new_code() -> str:
    groups = ("".join(secrets.choice(_LETTERS) for _ in range(_GROUP_CHARS)) for _ in range(_GROUPS))
    return "-".join(groups)


def _hash(code: str) -> bytes:
    """The hash of a recovery code, as it was shown or typed with other spaces, hyphens or capitals."""
    return sessions.hash_of("".join(code.split()).replace("-", "").lower())

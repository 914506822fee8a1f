"""Codes that account holders redeem for units.

An operator makes a batch of codes; the plain codes are shown once, and only their SHA-256 is stored. A code
gives its units to as many accounts as it has uses, and once to each. A redemption is an entry of the ledger,
in the transaction that takes a use of the locked code: two at once can't take the same use.
"""

import hashlib
import secrets

from msgspec import Struct, structs

from myna import accounts, activity, durations
from myna.activity import Actor
from myna.errors import CommandError
from myna.store.batch import EntryKind
from myna.store.database import Database, Queries, Transaction
from myna.store.queries import accounts as account_store
from myna.store.queries import codes as store
from myna.store.queries import ledger
from myna.store.queries.accounts import AccountRow
from myna.store.queries.codes import BatchRow, CodeRow

ALPHABET = "ABCDEFGHJKMNPQRSTUVWXYZ23456789"
"""Letters and digits without those that look alike: 0 and O, 1, I and L."""
GROUPS = 4
GROUP_CHARS = 5
"""Four groups of five characters are 99 bits."""
CODES_MAX = 10_000
USES_MAX = 1_000_000
GUESS_EVERY_MS = 60_000
GUESSES_AT_ONCE = 10
"""An account may try this many unknown codes at once, and then one each GUESS_EVERY_MS."""
_PAGE = 500


class NewBatch(Struct, frozen=True):
    """A batch and its plain codes, the only time that they are shown."""

    batch: BatchRow
    codes: list[str]


class Redeemed(Struct, frozen=True):
    """The units that a code gave, and the account with its new balance."""

    units: int
    account: AccountRow


def batch_state(batch: BatchRow, now: int) -> str:
    """The state of a batch at `now` (Unix milliseconds): active, disabled, expired or used up."""
    if batch.disabled_at:
        return "disabled"
    if batch.expires_at and batch.expires_at <= now:
        return "expired"
    return "active" if batch.uses_left else "used up"


async def add(
    db: Database, *, units: int, count: int, uses: int, life_ms: int, memo: str, by: Actor
) -> NewBatch:
    """Makes a batch of `count` codes of `units` each; `life_ms` 0: they never expire. Raises CommandError."""
    _check_whole("The units of a code", units, accounts.UNITS_MAX)
    _check_whole("The number of codes", count, CODES_MAX)
    _check_whole("The uses of a code", uses, USES_MAX)
    accounts.check_memo(memo)
    codes = [_new_code() for _ in range(count)]
    command = activity.words(
        *("code", "add"),
        units=units,
        count=count,
        uses=uses,
        expires=durations.text_of(life_ms) if life_ms else None,
        memo=memo or None,
    )

    async def work(connection: Transaction) -> BatchRow:
        await activity.record(connection, by, command)
        hashes = [_hash(code) for code in codes]
        return await store.add_batch(
            connection, units=units, uses=uses, life_ms=life_ms, memo=memo, hashes=hashes
        )

    return NewBatch(await db.transaction(work), codes)


async def list_all(db: Queries) -> list[BatchRow]:
    """All batches, oldest first."""
    found: list[BatchRow] = []
    while page := await store.page(db, found[-1].id if found else 0, _PAGE):
        found += page
    return found


async def disable(db: Database, batch_id: int, *, by: Actor) -> None:
    """Disables the codes of a batch. Units that they gave stay. Raises CommandError."""

    async def work(connection: Transaction) -> None:
        if not await store.disable(connection, batch_id):
            raise CommandError("There is no batch {batch_id}.", batch_id=batch_id)
        await activity.record(connection, by, activity.words("code", "disable", batch_id))

    await db.transaction(work)


async def redeem(db: Database, account_name: str, code: str, *, by: Actor) -> Redeemed:
    """Redeems a code for an account. Spaces, hyphens and case of the code are ignored. Raises CommandError;
    then only an unknown code is counted."""
    account = await accounts.find(db, account_name)
    plain = "".join(code.replace("-", " ").split()).upper()
    command = activity.words("code", "redeem", account.name, f"{plain[:GROUP_CHARS]}-***")

    async def work(connection: Transaction) -> Redeemed | CommandError:
        await account_store.lock(connection, account.id)
        wait_ms = await store.guesses_wait_ms(connection, account.id, GUESS_EVERY_MS, GUESSES_AT_ONCE)
        if wait_ms:
            raise CommandError(
                "The account has tried too many unknown codes; retry in {seconds} seconds.",
                seconds=-(-wait_ms // 1000),
            )
        found = await store.locked(connection, _hash(plain))
        if found is None:  # returned, since raising would roll back the count
            await store.count_guess(connection, account.id, GUESS_EVERY_MS)
            return CommandError("This code is unknown; check that it is complete.")
        redeemed = await _redeem(connection, account.id, _hash(plain), found)
        await activity.record(connection, by, command, account.id)
        return redeemed

    result = await db.transaction(work)
    if isinstance(result, CommandError):
        raise result
    return result


async def _redeem(connection: Transaction, account_id: int, code_hash: bytes, code: CodeRow) -> Redeemed:
    """Uses a code whose row and account are locked. Raises CommandError."""
    account = await account_store.by_id(connection, account_id)
    if account is None:
        raise CommandError("There is no such account.")
    if await store.has_redeemed(connection, code_hash, account_id):
        raise CommandError("This account has redeemed the code already.")
    if code.disabled_at:
        raise CommandError("This code is disabled; ask the operator.")
    if code.expires_at and code.expires_at <= code.now:
        raise CommandError("This code has expired.")
    if not code.uses_left:
        raise CommandError("This code is used up.")
    if account.balance + code.units > accounts.UNITS_MAX:
        raise CommandError("The balance may be {units_max} units at most.", units_max=accounts.UNITS_MAX)
    await store.use(connection, code_hash, account_id)
    memo = f"code of batch {code.batch_id}" + (f": {code.memo}" if code.memo else "")
    balance = await ledger.grant(connection, account_id, code.units, memo, EntryKind.REDEEM)
    if balance is None:
        raise AssertionError("a grant of units was refused")
    return Redeemed(code.units, structs.replace(account, balance=balance))


def _new_code() -> str:
    groups = ("".join(secrets.choice(ALPHABET) for _ in range(GROUP_CHARS)) for _ in range(GROUPS))
    return "-".join(groups)


def _hash(code: str) -> bytes:
    """The SHA-256 of a code without hyphens."""
    return hashlib.sha256(code.replace("-", "").encode()).digest()


def _check_whole(what: str, number: int, most: int) -> None:
    if not 1 <= number <= most:
        raise CommandError("{what} must be a whole number from 1 to {most}.", what=what, most=most)

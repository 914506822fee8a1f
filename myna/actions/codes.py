"""Codes that account holders redeem for units: made in batches, disabled, redeemed.

The plain codes of a batch are returned once, and only their SHA-256 is stored. A code gives its units to as
many accounts as it has uses, and once to each. A redemption is an entry of the ledger, in the transaction
that takes a use of the locked code: two concurrent ones can't take the same use.
"""

import hashlib
import secrets
from typing import Annotated

from msgspec import Struct, structs

from myna.accounts.accounts import UNITS_MAX, check_memo
from myna.actions import Action, Change, Field
from myna.errors import CommandError
from myna.lib import times
from myna.store.batch import EntryKind
from myna.store.database import Queries
from myna.store.queries import ledger
from myna.store.queries.accounts import AccountRow
from myna.store.queries.ledger import BatchRow, CodeRow
from myna.store.rows import ID_MAX

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


class NewBatch(Struct, frozen=True):
    """A batch and its plain codes, the only time that they are shown."""

    batch: BatchRow
    codes: list[str]


class Redeemed(Struct, frozen=True):
    """The units that a code gave, and the account with its new balance."""

    units: int
    account: AccountRow


class AddCodes(Action[NewBatch], frozen=True):
    """Make a batch of codes. They are printed once, as CSV or JSON, and not stored."""

    command = "code add"
    units: Annotated[int, Field("The units that a code gives.", limits=(1, UNITS_MAX))]
    count: Annotated[int, Field("How many codes to make.", limits=(1, CODES_MAX), label="How many codes")] = 1
    uses: Annotated[
        int, Field("How many accounts may redeem each code.", limits=(1, USES_MAX), label="Uses")
    ] = 1
    expires: Annotated[str, Field("Such as 30d, 12h, 90s.", value="SPAN", hyphen=True)] = ""
    memo: Annotated[str, Field("A note that the ledger stores with the units.", hyphen=True)] = ""

    def check_values(self) -> None:
        check_memo(self.memo)
        self._life_ms()

    def _life_ms(self) -> int:
        return times.parse_duration(self.expires) if self.expires else 0

    async def run(self, change: Change) -> NewBatch:
        codes = [_new_code() for _ in range(self.count)]
        batch = await ledger.add_codes(
            change.db,
            units=self.units,
            uses=self.uses,
            life_ms=self._life_ms(),
            memo=self.memo,
            hashes=[_hash(code) for code in codes],
        )
        return NewBatch(batch, codes)


class DisableCodes(Action[None], frozen=True):
    """Disable the codes of a batch. Units that they gave stay."""

    command = "code disable"
    batch: Annotated[int, Field("The batch in `myna code list`.", argument="BATCH")]

    def check_values(self) -> None:
        if not 0 < self.batch < 2**63:
            raise self._unknown()

    async def run(self, change: Change) -> None:
        # Not locked: at worst, disabling a batch twice at the same time is recorded twice.
        await change.compare(ledger.code_batches, self.batch - 1, 1)
        if not await ledger.disable_codes(change.db, self.batch):
            raise self._unknown()

    def _unknown(self) -> CommandError:
        return CommandError("There is no batch {batch_id}.", batch_id=self.batch)


class RedeemCode(Action[Redeemed], frozen=True):
    """Redeem a code for an account. Spaces, hyphens and case of the code are ignored."""

    command = "code redeem"
    account: Annotated[str, Field("The name of the account that gets the units.", argument="ACCOUNT")]
    code: Annotated[str, Field("The code.", argument="CODE")]

    async def run(self, change: Change) -> Redeemed | CommandError:
        account = await change.account(self.account)
        wait_ms = await ledger.code_guesses_wait_ms(change.db, account.id, GUESS_EVERY_MS, GUESSES_AT_ONCE)
        if wait_ms:
            raise CommandError(
                "The account has tried too many unknown codes; retry in {seconds} seconds.",
                seconds=-(-wait_ms // 1000),
            )
        plain = "".join(self.code.replace("-", " ").split()).upper()
        found = await ledger.locked_code(change.db, _hash(plain))
        if found is None:  # returned, since raising would roll back the count
            await ledger.count_code_guess(change.db, account.id, GUESS_EVERY_MS)
            return CommandError("This code is unknown; check that it is complete.")
        change.performed = [structs.replace(self, code=f"{plain[:GROUP_CHARS]}-***")]
        return await _redeem(change, account, _hash(plain), found)


async def list_all(db: Queries) -> list[BatchRow]:
    """All batches, oldest first."""
    return await ledger.code_batches(db, 0, ID_MAX)


def batch_state(batch: BatchRow, now: int) -> str:
    """The state of a batch at `now` (Unix milliseconds): active, disabled, expired or used up."""
    if batch.disabled_at:
        return "disabled"
    if batch.expires_at and batch.expires_at <= now:
        return "expired"
    return "active" if batch.uses_left else "used up"


async def _redeem(change: Change, account: AccountRow, code_hash: bytes, code: CodeRow) -> Redeemed:
    """Uses a code whose row and account are locked. Raises CommandError."""
    if await ledger.has_redeemed(change.db, code_hash, account.id):
        raise CommandError("This account has redeemed the code already.")
    if code.disabled_at:
        raise CommandError("This code is disabled; ask the operator.")
    if code.expires_at and code.expires_at <= code.now:
        raise CommandError("This code has expired.")
    if not code.uses_left:
        raise CommandError("This code is used up.")
    if account.balance + code.units > UNITS_MAX:
        raise CommandError("The balance may be {units_max} units at most.", units_max=UNITS_MAX)
    await ledger.use_code(change.db, code_hash, account.id)
    memo = f"code of batch {code.batch_id}" + (f": {code.memo}" if code.memo else "")
    balance = await ledger.grant(change.db, account.id, code.units, memo, EntryKind.REDEEM)
    if balance is None:
        raise AssertionError("a grant of units was refused")
    return Redeemed(code.units, structs.replace(account, balance=balance))


def _new_code() -> str:
    groups = ("".join(secrets.choice(ALPHABET) for _ in range(GROUP_CHARS)) for _ in range(GROUPS))
    return "-".join(groups)


def _hash(code: str) -> bytes:
    """The SHA-256 of a code without hyphens."""
    return hashlib.sha256(code.replace("-", "").encode()).digest()

"""myna ledger, myna calls, myna activity"""

import uuid
from typing import Annotated

import msgspec
from cyclopts import Parameter
from cyclopts.validators import Number
from msgspec import structs

from myna.accounts import accounts
from myna.accounts.keys import Scope
from myna.billing import reports
from myna.billing.reports import LedgerEntry
from myna.cli import COMMANDS
from myna.cli.console import Row, Whole, listing, seconds
from myna.errors import CommandError
from myna.lib.telemetry.requests import Usage
from myna.store.batch import CallState, EntryKind
from myna.store.database import Queries
from myna.store.queries import reports as reports_store
from myna.store.queries.accounts import activity_page
from myna.store.queries.reports import CALL_ID_MAX, LAST_PLACE, CallRow
from myna.store.rows import ID_MAX

Name = Annotated[str, Parameter(help="The name of the account.")]
Limit = Annotated[Whole, Parameter(help="How many to list, 1 to 10000.", validator=Number(gte=1, lte=10_000))]
Id = Annotated[Whole, Parameter(validator=Number(gte=1), show_default=False)]


@listing(
    empty="The account has no ledger entries yet.",
    brief=("created_at", "kind", "units", "balance", "memo"),
    snapshot=True,
)
async def ledger(
    db: Queries,
    account: Name,
    *,
    limit: Limit = 50,
    before: Annotated[str, Parameter(help="List entries older than this `entry` of the list.")] = "",
) -> list[Row]:
    """Show the ledger entries of an account, newest first."""
    last = _entry(before) if before else None
    owner = await accounts.find(db, account)
    place = await reports_store.place_of(db, owner.id, *last) if last else LAST_PLACE
    if place is None:
        raise CommandError(f"{account!r} has no entry {before!r}; use one of the list.")
    page = await reports.entries_below(db, owner.id, place, limit)
    return [_shown_entry(entry) for entry in page.entries]


@listing(
    empty="There are no such calls.",
    brief=("created_at", "account", "state", "units", "route", "channel"),
    snapshot=True,
)
async def calls(
    db: Queries,
    *,
    request_id: Annotated[str, Parameter(help="List the calls of the request with this X-Request-Id.")] = "",
    account: Annotated[str, Parameter(help="List the calls of this account.")] = "",
    call: Annotated[str, Parameter(help="Show the call with this id.")] = "",
    limit: Limit = 50,
    before: Annotated[str, Parameter(help="List calls older than this `call` of the list.")] = "",
) -> list[Row]:
    """Show calls, newest first: those of a request, of an account, or one."""
    if [bool(request_id), bool(account), bool(call)].count(True) != 1:
        raise CommandError("Give one of --request-id, --account and --call.")
    last = _call_id(before) if before else CALL_ID_MAX
    if call:
        found = await reports_store.call(db, _call_id(call))
    elif request_id:
        found = await reports_store.calls_of_request(db, request_id, last, limit)
    else:
        owner = await accounts.find(db, account)
        found = await reports_store.calls_of_account(db, owner.id, last, limit)
    return [_shown_call(row) for row in found]


@listing(empty="There is no such change.", brief=("id", "created_at", "by", "command"), snapshot=True)
async def activity(
    db: Queries,
    *,
    account: Annotated[str, Parameter(help="List the changes that concern this account.")] = "",
    by: Annotated[str, Parameter(help="List the changes that this account made.")] = "",
    command: Annotated[str, Parameter(help="List the commands that begin so: `account grant`.")] = "",
    limit: Limit = 50,
    before: Annotated[Id, Parameter(help="List changes older than this `id` of the list.")] = ID_MAX,
) -> list[Row]:
    """Show who changed what, newest first, as commands that make the same changes."""
    if not any(
        f"{name} ".startswith(command.partition(" ")[0]) for group in COMMANDS.values() for name in group
    ):
        raise CommandError(f"No command begins with {command!r}; write one as in 'account grant'.")
    found = await activity_page(
        db,
        before=min(before, ID_MAX),
        limit=limit,
        prefix=command,
        actor_id=(await accounts.find(db, by)).id if by else None,
        account_id=(await accounts.find(db, account)).id if account else None,
    )
    return [
        {
            "id": row.id,
            "created_at": seconds(row.created_at),
            "by": row.actor,
            "from": row.address if row.actor_id else "command line",
            "account": row.account,
            "command": row.command,
        }
        for row in found
    ]


def _entry(text: str) -> tuple[bytes, EntryKind]:
    """An entry as it is listed: the id of its call, and its kind."""
    call_id, _, kind = text.rpartition("-")
    if kind.upper() not in EntryKind.__members__:
        raise CommandError(f"{text!r} is not an entry of the ledger; use one of the list.")
    return _call_id(call_id), EntryKind[kind.upper()]


def _call_id(text: str) -> bytes:
    try:
        return uuid.UUID(text).bytes
    except ValueError:
        raise CommandError(f"{text!r} is not a call's id, which has 32 hexadecimal digits.") from None


def _shown_entry(entry: LedgerEntry) -> Row:
    kind = EntryKind(entry.kind).name.lower()
    return {
        "entry": f"{entry.call_id.hex()}-{kind}",
        "created_at": seconds(entry.at),
        "kind": kind,
        "units": entry.units,
        "balance": entry.balance,
        "call": "" if entry.kind in (EntryKind.GRANT, EntryKind.REDEEM) else entry.call_id.hex(),
        "request_id": entry.request_id,
        "memo": entry.memo,
    }


def _shown_call(row: CallRow) -> Row:
    usage = msgspec.json.decode(row.usage, type=Usage) if row.usage else Usage()
    return {
        "call": row.id.hex(),
        "account": row.account,
        "key": row.key_id,
        "state": CallState(row.state).name.lower(),
        "rate": "speech" if row.pays & Scope.TTS else "chat",
        "units": row.units,
        "route": row.route,
        "channel": row.channel,
        "reason": row.reason,
        **structs.asdict(usage),
        "request_id": row.request_id,
        "task": row.task_id,
        "created_at": seconds(row.created_at),
        "deadline_at": seconds(row.deadline),
        "ended_at": seconds(row.ended_at),
    }

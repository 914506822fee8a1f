"""myna account add|show|list|usage|rename|disable|enable|grant|limit|invite|reset|sessions|sign-out|set, and
second-factor|oidc"""

import shlex
import time
from typing import Annotated

from cyclopts import App, Parameter
from cyclopts.validators import Number
from msgspec import structs

from myna.accounts import accounts, limits
from myna.accounts.sign_in import links, second_factor
from myna.actions import Action
from myna.actions.accounts import (
    AddAccount,
    DisableAccount,
    EnableAccount,
    GrantUnits,
    InviteAccount,
    LimitAccount,
    RemoveSecondFactor,
    RenameAccount,
    ResetAccount,
    SetIdentity,
    SetPreferences,
    SignOut,
)
from myna.cli.commands import perform, register
from myna.cli.console import (
    Json,
    Row,
    Whole,
    address_note,
    listing,
    read_settings,
    seconds,
    show,
    with_database,
)
from myna.cli.history import Limit
from myna.lib.times import HOUR_MS
from myna.store.database import Database, Queries
from myna.store.queries import keys as limit_store
from myna.store.queries import reports
from myna.store.queries import sessions as session_store
from myna.store.queries.accounts import AccountRow, preferences_of
from myna.store.queries.keys import OF_ACCOUNT
from myna.store.queries.sign_in import identity_of

app = App(name="account", help="Accounts and their units.")
Name = Annotated[str, Parameter(help="The name of the account.")]


@app.command(name="show")
def show_one(name: Name, *, json: Json = False) -> None:
    """Show an account and its balance."""
    show(_shown(with_database(lambda db: accounts.find(db, name), json=json)), json)


@app.command(name="list")
@listing(empty="There is no account yet.", brief=("id", "name", "email", "balance", "operator", "disabled"))
async def list_all(db: Database) -> list[Row]:
    """List all accounts."""
    return [_shown(row) for row in await accounts.list_all(db)]


@app.command(name="usage")
@listing(empty="No call ended in these hours.", brief=("account", "calls", "units"), snapshot=True)
async def list_usage(
    db: Queries,
    *,
    hours: Annotated[Whole, Parameter(help="Hours up to now.", validator=Number(gte=1, lte=10_000))] = 24,
    limit: Limit = 50,
) -> list[Row]:
    """List what each account used in the last hours, the most units first."""
    start = int(time.time() * 1000) - (hours + 1) * HOUR_MS
    return [structs.asdict(row) for row in await reports.usage_by_account(db, start, limit)]


@app.command(name="sessions")
@listing(empty="The account has no session.", brief=("id", "address", "seen_at", "user_agent"))
async def list_sessions(db: Database, name: Name) -> list[Row]:
    """List the sessions of an account in the back office, the one used last first."""
    owner = await accounts.find(db, name)
    return [
        {
            "id": row.id,
            "address": row.address,
            "user_agent": row.user_agent,
            "second_factor": bool(row.second_factor),
            "created_at": seconds(row.created_at),
            "seen_at": seconds(row.seen_at),
        }
        for row in await session_store.of_account(db, owner.id)
    ]


def _shown(row: AccountRow) -> Row:
    return {
        "id": row.id,
        "name": row.name,
        "email": row.email,
        "operator": bool(row.operator),
        "disabled": bool(row.disabled_at),
        "balance": row.balance,
        "created_at": seconds(row.created_at),
    }


async def _add(db: Database, action: AddAccount) -> Row:
    account = await perform(db, action)
    link = await _link(db, InviteAccount(name=account.name)) if action.email or action.operator else {}
    return {**_shown(account), **link}


def _after_adding(action: AddAccount, shown: Row) -> str:
    if "link" in shown:
        return "Next: send the link to the account's holder, who sets a password with it."
    return f"Next: myna key issue {shlex.quote(action.name)}"


async def _link(db: Database, action: Action[str]) -> Row:
    """A new link for an account."""
    token, address = await perform(db, action), read_settings().base_url
    link = await links.find(db, token)
    return {
        "link": links.url(address, token),
        "link_expires_at": seconds(link.expires_at) if link else 0,
        **address_note(address),
    }


async def _perform_if_given(
    db: Database, action: LimitAccount | RemoveSecondFactor | SetIdentity
) -> AccountRow:
    """Performs the action if an option is given: without one such a command shows the state. Returns the
    account as it was before."""
    account = await accounts.find(db, action.name)
    if action != type(action)(name=action.name):
        await perform(db, action)
    return account


async def _limit(db: Database, action: LimitAccount) -> Row:
    account = await _perform_if_given(db, action)
    row = await limit_store.limits_of(db, account.id, OF_ACCOUNT)
    return {"name": account.name, **limits.shown(row), "open_calls": row.open_calls}


async def _second_factor(db: Database, action: RemoveSecondFactor) -> Row:
    account = await _perform_if_given(db, action)
    found = await second_factor.of_account(db, account.id)
    return {"name": action.name, "second_factor": found.on, "recovery_codes": found.codes_left}


async def _identity(db: Database, action: SetIdentity) -> Row:
    account = await _perform_if_given(db, action)
    found = await identity_of(db, account.id)
    return {
        "name": action.name,
        "issuer": found.issuer if found else "",
        "subject": found.subject if found else "",
        "linked_at": seconds(found.linked_at) if found else 0,
    }


async def _preferences(db: Database, action: SetPreferences) -> Row:
    if action == SetPreferences(name=action.name):
        found = await preferences_of(db, (await accounts.find(db, action.name)).id)
    else:
        found = await perform(db, action)
    return {"name": action.name, "language": found.language, "low_balance": found.low_balance}


register(
    app,
    AddAccount,
    run=_add,
    then=_after_adding,
    unseen=lambda action, shown: InviteAccount(name=action.name) if "link" in shown else None,
)
for kind in (RenameAccount, DisableAccount, EnableAccount, GrantUnits):
    register(app, kind, lambda _, account: _shown(account))
for link_kind in (InviteAccount, ResetAccount):
    register(
        app,
        link_kind,
        lambda action, link: {"name": action.name, **link},
        run=_link,
        unseen=lambda action, _: action,  # another link, which is not shown, replaces it
    )
register(app, LimitAccount, run=_limit)
register(app, SignOut, lambda action, ended: {"name": action.name, "ended": ended})
register(app, RemoveSecondFactor, run=_second_factor)
register(app, SetIdentity, run=_identity)
register(app, SetPreferences, run=_preferences)

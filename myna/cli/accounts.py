"""myna account add|show|list|rename|disable|enable|grant|limit, and the commands of account_access"""

import shlex
from typing import Annotated

from cyclopts import App, Parameter

from myna.accounts import accounts, limits
from myna.actions.access import InviteAccount
from myna.actions.accounts import (
    AddAccount,
    DisableAccount,
    EnableAccount,
    GrantUnits,
    LimitAccount,
    RenameAccount,
)
from myna.actions.keys import given_limits
from myna.cli.account_access import link_to
from myna.cli.account_access import register as register_access
from myna.cli.actions import perform, register
from myna.cli.console import Json, Wide, seconds, show, show_rows, with_database
from myna.store.database import Database
from myna.store.queries import keys as limit_store
from myna.store.queries.accounts import AccountRow
from myna.store.queries.keys import OF_ACCOUNT

app = App(name="account", help="Accounts and their units.")
register_access(app)
Name = Annotated[str, Parameter(help="The name of the account.")]


@app.command(name="show")
def show_one(name: Name, *, json: Json = False) -> None:
    """Show an account and its balance."""
    show(_shown(with_database(lambda db: accounts.find(db, name), json=json)), json)


@app.command(name="list")
def list_all(*, wide: Wide = False, json: Json = False) -> None:
    """List all accounts."""
    rows = with_database(accounts.list_all, json=json)
    brief = ("id", "name", "email", "balance", "operator", "disabled")
    shown = [_shown(row) for row in rows]
    show_rows(shown, json, empty="There is no account yet.", brief=brief, wide=wide)


async def _add(db: Database, action: AddAccount) -> dict[str, object]:
    account = await perform(db, action)
    link = await link_to(db, InviteAccount(name=account.name)) if action.email or action.operator else {}
    return {**_shown(account), **link}


async def _limit(db: Database, action: LimitAccount) -> dict[str, object]:
    if given_limits(action):
        await perform(db, action)
    account = await accounts.find(db, action.name)
    row = await limit_store.limits_of(db, account.id, OF_ACCOUNT)
    return {"name": account.name, **limits.shown(row), "open_calls": row.open_calls}


def _shown(row: AccountRow) -> dict[str, object]:
    return {
        "id": row.id,
        "name": row.name,
        "email": row.email,
        "operator": bool(row.operator),
        "disabled": bool(row.disabled_at),
        "balance": row.balance,
        "created_at": seconds(row.created_at),
    }


def _after_adding(action: AddAccount, shown: dict[str, object]) -> str:
    if "link" in shown:
        return "Next: send the link to the account's holder, who sets a password with it."
    return f"Next: myna key issue {shlex.quote(action.name)}"


register(app, AddAccount, lambda _, shown: shown, run=_add, then=_after_adding)
for kind in (RenameAccount, DisableAccount, EnableAccount, GrantUnits):
    register(app, kind, lambda _, account: _shown(account))
register(app, LimitAccount, lambda _, shown: shown, run=_limit)

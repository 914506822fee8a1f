"""myna account add|show|list|rename|disable|enable|grant|limit, and the commands of account_access"""

from typing import Annotated

from cyclopts import App, Parameter

from myna import accounts, limits
from myna.activity import command_line
from myna.cli.account_access import link_to, register
from myna.cli.console import Json, Whole, Wide, seconds, show, show_rows, with_database
from myna.cli.limit_options import Concurrent, Rpm, UnitsPerDay
from myna.sign_in.links import Purpose
from myna.store.database import Database
from myna.store.queries import limits as limit_store
from myna.store.queries.accounts import AccountRow
from myna.store.queries.limits import OF_ACCOUNT

app = App(name="account", help="Accounts and their units.")
register(app)
Name = Annotated[str, Parameter(help="The name of the account.")]


@app.command
def add(
    name: Name,
    *,
    units: Annotated[Whole, Parameter(help="Units that the account starts with.")] = 0,
    email: Annotated[
        str,
        Parameter(help="An e-mail address, with which its holder can sign in too. Nothing is sent to it."),
    ] = "",
    operator: Annotated[
        bool, Parameter(help="Its holder is an operator, who runs the site in the back office.")
    ] = False,
    json: Json = False,
) -> None:
    """Create an account, optionally with units. With an e-mail address, or for an operator, a link is printed
    once with which its holder sets a password, as by `myna account invite`."""

    async def work(db: Database) -> dict[str, object]:
        account = await accounts.add(db, name, email, operator, units, by=command_line())
        link = await link_to(db, Purpose.INVITE, account.id) if email or operator else {}
        return {**_shown(account), **link}

    show(with_database(work, json=json), json)


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


@app.command
def rename(
    name: Name, new: Annotated[str, Parameter(help="Its new name.")], /, *, json: Json = False
) -> None:
    """Rename an account. Its keys and units stay."""
    show(_shown(with_database(lambda db: accounts.rename(db, name, new, by=command_line()), json=json)), json)


@app.command
def disable(
    name: Name,
    *,
    force: Annotated[
        bool,
        Parameter(help="Disable it even if no operator can sign in to the back office then."),
    ] = False,
    json: Json = False,
) -> None:
    """Disable an account: all its keys are refused, and its sessions in the back office end."""
    _switch(name, False, json, keep_operator=not force)


@app.command
def enable(name: Name, *, json: Json = False) -> None:
    """Enable a disabled account."""
    _switch(name, True, json, keep_operator=False)


@app.command
def grant(
    name: Name,
    units: Annotated[Whole, Parameter(help="Units to add; a negative number removes units.")],
    *,
    memo: Annotated[str, Parameter(help="A note that the ledger stores with the grant.")] = "",
    json: Json = False,
) -> None:
    """Grant units to an account; a negative number takes them back."""
    by = command_line()
    row = with_database(lambda db: accounts.grant(db, name, units, memo, by=by), json=json)
    show(_shown(row), json)


@app.command
def limit(
    name: Name,
    *,
    rpm: Rpm = None,
    concurrent: Concurrent = None,
    units_per_day: UnitsPerDay = None,
    json: Json = False,
) -> None:
    """Limit the calls and units of an account; without options, show its limits."""
    given = limits.parsed(rpm=rpm, concurrent=concurrent, units_per_day=units_per_day)

    async def work(db: Database) -> dict[str, object]:
        if given:
            await accounts.set_limits(db, name, given, by=command_line())
        account = await accounts.find(db, name)
        row = await limit_store.of_key(db, account.id, OF_ACCOUNT)
        return {"name": account.name, **limits.shown(row), "open_calls": row.open_calls}

    show(with_database(work, json=json), json)


def _switch(name: str, enabled: bool, json: bool, *, keep_operator: bool) -> None:
    by = command_line()
    row = with_database(
        lambda db: accounts.set_enabled(db, name, enabled, by=by, keep_operator=keep_operator), json=json
    )
    show(_shown(row), json)


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

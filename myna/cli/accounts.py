"""myna account add|show|list|rename|disable|enable|grant"""

from cyclopts import App

from myna import accounts
from myna.cli.console import Json, Whole, seconds, show, show_rows, with_database
from myna.store.queries.accounts import AccountRow

app = App(name="account", help="Accounts and their units.")


@app.command
def add(name: str, *, units: Whole = 0, email: str = "", operator: bool = False, json: Json = False) -> None:
    """Create an account, optionally with units."""
    show(_shown(with_database(lambda db: accounts.add(db, name, email, operator, units), json=json)), json)


@app.command(name="show")
def show_one(name: str, *, json: Json = False) -> None:
    """Show an account and its balance."""
    show(_shown(with_database(lambda db: accounts.find(db, name), json=json)), json)


@app.command(name="list")
def list_all(*, json: Json = False) -> None:
    """List all accounts."""
    rows = with_database(accounts.list_all, json=json)
    show_rows([_shown(row) for row in rows], json, empty="There is no account yet.")


@app.command
def rename(name: str, new: str, /, *, json: Json = False) -> None:
    """Rename an account. Its keys and units stay."""
    show(_shown(with_database(lambda db: accounts.rename(db, name, new), json=json)), json)


@app.command
def disable(name: str, *, json: Json = False) -> None:
    """Disable an account: all its keys are refused."""
    _switch(name, False, json)


@app.command
def enable(name: str, *, json: Json = False) -> None:
    """Enable a disabled account."""
    _switch(name, True, json)


@app.command
def grant(name: str, units: Whole, *, memo: str = "", json: Json = False) -> None:
    """Grant units to an account; a negative number takes them back."""
    show(_shown(with_database(lambda db: accounts.grant(db, name, units, memo), json=json)), json)


def _switch(name: str, enabled: bool, json: bool) -> None:

    show(_shown(with_database(lambda db: accounts.set_enabled(db, name, enabled), json=json)), json)


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

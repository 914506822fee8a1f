"""How an account signs in: myna account invite|reset|sessions|sign-out|second-factor|oidc|set"""

from typing import Annotated

from cyclopts import App, Parameter

from myna.accounts import accounts
from myna.accounts.sign_in import links, second_factor, sessions
from myna.accounts.sign_in.oidc import identities
from myna.accounts.sign_in.second_factor import SecondFactor
from myna.actions import Action
from myna.actions.access import InviteAccount, RemoveSecondFactor, ResetAccount, SetIdentity, SignOut
from myna.actions.accounts import SetPreferences
from myna.cli.actions import perform
from myna.cli.actions import register as register_action
from myna.cli.console import Json, Wide, address_note, read_settings, seconds, show_rows, with_database
from myna.store.database import Database
from myna.store.queries.accounts import Preferences, preferences_of
from myna.store.queries.sessions import SessionRow
from myna.store.queries.sign_in import IdentityRow

Name = Annotated[str, Parameter(help="The name of the account.")]


def register(app: App) -> None:
    """Adds the commands to `myna account`."""
    app.command(list_sessions, name="sessions")
    for kind in (InviteAccount, ResetAccount):
        register_action(app, kind, lambda action, link: {"name": action.name, **link}, run=link_to)
    register_action(app, SignOut, lambda action, ended: {"name": action.name, "ended": ended})
    register_action(
        app,
        RemoveSecondFactor,
        lambda action, found: {
            "name": action.name,
            "second_factor": found.on,
            "recovery_codes": found.codes_left,
        },
        run=_second_factor,
    )
    register_action(
        app,
        SetIdentity,
        lambda action, found: {
            "name": action.name,
            "issuer": found.issuer,
            "subject": found.subject,
            "linked_at": seconds(found.linked_at),
        },
        run=_identity,
    )
    register_action(
        app,
        SetPreferences,
        lambda action, found: {
            "name": action.name,
            "language": found.language,
            "low_balance": found.low_balance,
        },
        run=_preferences,
    )


async def link_to(db: Database, action: Action[str]) -> dict[str, object]:
    """A new link for an account, as a command prints it."""
    token, address = await perform(db, action), read_settings().base_url
    link = await links.find(db, token)
    return {
        "link": links.url(address, token),
        "link_expires_at": seconds(link.expires_at) if link else 0,
        **address_note(address),
    }


def list_sessions(name: Name, *, wide: Wide = False, json: Json = False) -> None:
    """List the sessions of an account in the back office, the one used last first."""

    async def work(db: Database) -> list[SessionRow]:
        return await sessions.of_account(db, (await accounts.find(db, name)).id)

    rows = [_shown(row) for row in with_database(work, json=json)]
    brief = ("id", "address", "seen_at", "user_agent")
    show_rows(rows, json, empty="The account has no session.", brief=brief, wide=wide)


async def _second_factor(db: Database, action: RemoveSecondFactor) -> SecondFactor:
    account = await accounts.find(db, action.name)
    if action.remove:
        await perform(db, action)
    return await second_factor.of_account(db, account.id)


async def _identity(db: Database, action: SetIdentity) -> IdentityRow:
    account = await accounts.find(db, action.name)
    if action.remove or action.subject is not None:
        await perform(db, action)
    return await identities.of_account(db, account.id) or IdentityRow(account.id, "", "", 0)


async def _preferences(db: Database, action: SetPreferences) -> Preferences:
    if action == SetPreferences(name=action.name):
        return await preferences_of(db, (await accounts.find(db, action.name)).id)
    return await perform(db, action)


def _shown(row: SessionRow) -> dict[str, object]:
    return {
        "id": row.id,
        "address": row.address,
        "user_agent": row.user_agent,
        "second_factor": bool(row.second_factor),
        "created_at": seconds(row.created_at),
        "seen_at": seconds(row.seen_at),
    }

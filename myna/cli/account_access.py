"""How an account signs in: myna account invite|reset|sessions|sign-out|second-factor|oidc|set"""

from typing import Annotated

from cyclopts import App, Parameter

from myna.accounts import accounts
from myna.accounts.activity import command_line
from myna.accounts.sign_in import links, second_factor, sessions
from myna.accounts.sign_in.links import LIFE_MS, Purpose
from myna.accounts.sign_in.oidc import identities
from myna.accounts.sign_in.oidc.id_token import is_subject
from myna.accounts.sign_in.oidc.identities import Identity
from myna.accounts.sign_in.oidc.refusal import OidcRefused
from myna.accounts.sign_in.second_factor import SecondFactor
from myna.actions.accounts import SetPreferences
from myna.cli.actions import perform
from myna.cli.actions import register as register_action
from myna.cli.console import Json, Wide, address_note, read_settings, seconds, show, show_rows, with_database
from myna.errors import CommandError
from myna.store.database import Database
from myna.store.queries import preferences
from myna.store.queries.accounts import AccountRow
from myna.store.queries.oidc import IdentityRow
from myna.store.queries.preferences import Preferences
from myna.store.queries.sessions import SessionRow

Name = Annotated[str, Parameter(help="The name of the account.")]


def register(app: App) -> None:
    """Adds the commands to `myna account`."""
    for command, name in (
        (invite, "invite"),
        (reset, "reset"),
        (list_sessions, "sessions"),
        (sign_out, "sign-out"),
        (show_second_factor, "second-factor"),
        (show_identity, "oidc"),
    ):
        app.command(command, name=name)
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


async def link_to(db: Database, purpose: Purpose, account_id: int) -> dict[str, object]:
    """A new link for an account, as a command prints it."""
    token = await links.create(db, purpose, account_id, LIFE_MS[purpose], command_line())
    link = await links.find(db, token)
    address = read_settings().base_url
    return {
        "link": links.url(address, token),
        "link_expires_at": seconds(link.expires_at) if link else 0,
        **address_note(address),
    }


def invite(name: Name, *, json: Json = False) -> None:
    """Create a link with which the account's holder sets the first password. It is printed once, not stored,
    and works once, within three days."""
    _show_link(Purpose.INVITE, name, json)


def reset(name: Name, *, json: Json = False) -> None:
    """Create a link with which the account's holder sets a new password. It is printed once, not stored, and
    works once, within an hour. The account's sessions end when it is used."""
    _show_link(Purpose.RESET, name, json)


def list_sessions(name: Name, *, wide: Wide = False, json: Json = False) -> None:
    """List the sessions of an account in the back office, the one used last first."""

    async def work(db: Database) -> list[SessionRow]:
        return await sessions.of_account(db, (await accounts.find(db, name)).id)

    rows = [_shown(row) for row in with_database(work, json=json)]
    brief = ("id", "address", "seen_at", "user_agent")
    show_rows(rows, json, empty="The account has no session.", brief=brief, wide=wide)


def sign_out(name: Name, *, json: Json = False) -> None:
    """End all sessions of an account in the back office. Its keys are not affected."""

    async def work(db: Database) -> int:
        return await sessions.close_all(db, await accounts.find(db, name), command_line())

    show({"name": name, "ended": with_database(work, json=json)}, json)


def show_second_factor(
    name: Name,
    *,
    remove: Annotated[
        bool, Parameter(help="Remove it, for a person who lost the device and the codes.")
    ] = False,
    json: Json = False,
) -> None:
    """Show whether an account has a second factor, and how many recovery codes are left."""

    async def work(db: Database) -> SecondFactor:
        account = await accounts.find(db, name)
        if remove:
            await second_factor.remove(db, account, command_line())
        return await second_factor.of_account(db, account.id)

    found = with_database(work, json=json)
    show({"name": name, "second_factor": found.on, "recovery_codes": found.codes_left}, json)


def show_identity(
    name: Name,
    *,
    subject: Annotated[
        str | None,
        Parameter(help="Link the account to this subject of the provider, in place of another one."),
    ] = None,
    remove: Annotated[bool, Parameter(help="Remove the link. The account's sessions end.")] = False,
    json: Json = False,
) -> None:
    """Show the OpenID Connect identity that an account is linked to, or change it."""

    async def work(db: Database) -> IdentityRow | None:
        account = await accounts.find(db, name)
        if remove:
            await identities.unlink(db, account, command_line())
        elif subject is not None:
            await _link(db, account, subject)
        return await identities.of_account(db, account.id)

    found = with_database(work, json=json)
    shown = {"issuer": found.issuer, "subject": found.subject} if found else {"issuer": "", "subject": ""}
    show({"name": name, **shown, "linked_at": seconds(found.linked_at) if found else 0}, json)


async def _preferences(db: Database, action: SetPreferences) -> Preferences:
    if action == SetPreferences(name=action.name):
        return await preferences.of_account(db, (await accounts.find(db, action.name)).id)
    return await perform(db, action)


async def _link(db: Database, account: AccountRow, subject: str) -> None:
    issuer = read_settings().oidc_issuer
    if not issuer:
        raise CommandError("MYNA_OIDC_ISSUER is not set.")
    if not is_subject(subject):
        raise CommandError("A subject has 1 to 255 printable ASCII characters.")
    try:
        await identities.link(db, account, Identity(issuer, subject), command_line())
    except OidcRefused:
        raise CommandError("This subject is linked to another account; unlink it there first.") from None


def _show_link(purpose: Purpose, name: str, json: bool) -> None:
    async def work(db: Database) -> dict[str, object]:
        return await link_to(db, purpose, (await accounts.find(db, name)).id)

    show({"name": name, **with_database(work, json=json)}, json)


def _shown(row: SessionRow) -> dict[str, object]:
    return {
        "id": row.id,
        "address": row.address,
        "user_agent": row.user_agent,
        "second_factor": bool(row.second_factor),
        "created_at": seconds(row.created_at),
        "seen_at": seconds(row.seen_at),
    }

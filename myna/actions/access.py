"""Changes of how an account signs in: links for passwords, the second factor, the provider's identity,
sessions. A `session` is the token hash of the one that makes the change."""

from typing import Annotated

from myna.accounts.sign_in import links, passwords, second_factor
from myna.accounts.sign_in.links import Purpose
from myna.accounts.sign_in.oidc import identities
from myna.accounts.sign_in.oidc.id_token import is_subject
from myna.accounts.sign_in.oidc.identities import Identity
from myna.actions import Action, Change, Field
from myna.actions.accounts import Name
from myna.errors import CommandError
from myna.store.queries import sessions as session_store
from myna.store.queries import sign_in

Session = Annotated[bytes, Field("The token hash of a session that stays.", secret=True)]


class InviteAccount(Action[str], frozen=True):
    """Create a link with which the account's holder sets the first password. It is printed once, not stored,
    and works once, within three days."""

    command = "account invite"
    name: Name

    async def run(self, change: Change) -> str:
        return await links.create(change.db, Purpose.INVITE, await change.account(self.name))


class ResetAccount(Action[str], frozen=True):
    """Create a link with which the account's holder sets a new password. It is printed once, not stored, and
    works once, within an hour. The account's sessions end when it is used."""

    command = "account reset"
    name: Name

    async def run(self, change: Change) -> str:
        return await links.create(change.db, Purpose.RESET, await change.account(self.name))


class SetPassword(Action[None], frozen=True):
    """Set the password of an account, which ends all its sessions and links. It was checked and hashed
    before, since that takes long."""

    command = "account reset"
    name: Name
    password_hash: Annotated[str, Field("The hash of the new password.", secret=True)]

    @property
    def note(self) -> str:
        return "a new password was set"

    async def run(self, change: Change) -> None:
        account = await change.account(self.name)
        await passwords.replace(change.db, account.id, self.password_hash)


class SignOut(Action[int], frozen=True):
    """End the sessions of an account in the back office, or one of them. Its keys are not affected."""

    command = "account sign-out"
    name: Name
    id: Annotated[int | None, Field("The only one to end, by its id in 'myna account sessions'.")] = None
    session: Session = b""

    @property
    def note(self) -> str:
        return "all but the session of this change" if self.session else ""

    async def run(self, change: Change) -> int:
        account = await change.account(self.name)
        if self.id is None:
            return await session_store.delete_all(change.db, account.id, but=self.session)
        if not 0 < self.id < 2**63 or not await session_store.delete_one(change.db, account.id, self.id):
            raise CommandError("There is no such session.")
        return 1


class RemoveSecondFactor(Action[None], frozen=True):
    """Show whether an account has a second factor, and how many recovery codes are left."""

    command = "account second-factor"
    name: Name
    remove: Annotated[bool, Field("Remove it, for a person who lost the device and the codes.")] = False

    async def run(self, change: Change) -> None:
        account = await change.account(self.name)
        if not await sign_in.remove_second_factor(change.db, account.id):
            raise CommandError("{name!r} has no second factor.", name=account.name)


class ConfirmSecondFactor(Action[list[str]], frozen=True):
    """Turn the second factor on, by a code of the app. Ends the other sessions."""

    command = "account second-factor"
    name: Name
    code: Annotated[str, Field("The code that the app shows.", secret=True)]
    session: Session

    async def run(self, change: Change) -> list[str]:
        account = await change.account(self.name)
        return await second_factor.confirm(change.db, account.id, self.session, self.code)


class NewRecoveryCodes(Action[list[str]], frozen=True):
    """Replace the recovery codes of an account."""

    command = "account second-factor"
    name: Name

    async def run(self, change: Change) -> list[str]:
        return await second_factor.new_codes(change.db, (await change.account(self.name)).id)


class SetIdentity(Action[None], frozen=True):
    """Show the OpenID Connect identity that an account is linked to, or change it."""

    command = "account oidc"
    name: Name
    subject: Annotated[
        str | None, Field("Link the account to this subject of the provider, in place of another one.")
    ] = None
    remove: Annotated[bool, Field("Remove the link. The account's sessions end.")] = False
    session: Session = b""

    def check(self) -> None:
        if self.subject is not None and not is_subject(self.subject):
            raise CommandError("A subject has 1 to 255 printable ASCII characters.")

    async def run(self, change: Change) -> None:
        account = await change.account(self.name)
        if not self.remove:
            if not change.settings.oidc_issuer:
                raise CommandError("MYNA_OIDC_ISSUER is not set.")
            identity = Identity(change.settings.oidc_issuer, self.subject or "")
            await identities.link(change.db, account.id, identity, session=self.session)
            return
        if change.owner_id is not None and not await passwords.has_one(change.db, account.id):
            raise CommandError("This is the only way to sign in to this account. Set a password first.")
        await identities.unlink(change.db, account.id, session=self.session)

"""Changes of accounts: their names, units, limits and preferences, and how their holders sign in: links for
passwords, the second factor, the provider's identity, sessions.

A `session` is the token hash of the one that makes the change.
"""

from typing import Annotated, ClassVar

from msgspec import structs

from myna.accounts.accounts import UNITS_MAX, check_details, check_memo, check_name
from myna.accounts.limits import put as put_limits
from myna.accounts.sign_in import links, passwords, second_factor
from myna.accounts.sign_in.links import Purpose
from myna.accounts.sign_in.oidc import identities
from myna.accounts.sign_in.oidc.id_token import is_subject
from myna.accounts.sign_in.oidc.identities import Identity
from myna.actions import Action, Change, Field
from myna.actions.keys import Concurrent, Rpm, UnitsPerDay, given_limits
from myna.errors import CommandError
from myna.store.queries import accounts as store
from myna.store.queries import keys as limit_store
from myna.store.queries import ledger, sign_in
from myna.store.queries import sessions as session_store
from myna.store.queries.accounts import LANGUAGES, AccountRow, Preferences
from myna.store.queries.keys import OF_ACCOUNT
from myna.store.queries.sign_in import an_operator_can_sign_in

Name = Annotated[str, Field("The name of the account.", argument="NAME")]


class AddAccount(Action[AccountRow], frozen=True):
    """Create an account, optionally with units. With an e-mail address, or for an operator, a link is printed
    once with which its holder sets a password, as by `myna account invite`."""

    command = "account add"
    name: Name
    units: Annotated[int, Field("Units that the account starts with.", limits=(0, UNITS_MAX))] = 0
    email: Annotated[
        str,
        Field(
            "An e-mail address, with which its holder can sign in too. Nothing is sent to it.", label="E-mail"
        ),
    ] = ""
    operator: Annotated[bool, Field("Its holder is an operator, who runs the site in the back office.")] = (
        False
    )

    def check_values(self) -> None:
        check_details(self.name, self.email)

    async def run(self, change: Change) -> AccountRow:
        account_id = await store.insert(change.db, self.name, self.email, self.operator)
        if account_id is None:
            raise CommandError("There already is an account {name!r}.", name=self.name)
        if self.units:
            await ledger.grant(change.db, account_id, self.units, "opening grant")
        return await change.locked(account_id)


class GrantUnits(Action[AccountRow], frozen=True):
    """Grant units to an account; a negative number takes them back. The balance never falls below 0."""

    command = "account grant"
    name: Name
    units: Annotated[
        int,
        Field(
            "Units to add; a negative number removes units.",
            argument="UNITS",
            limits=(-UNITS_MAX, UNITS_MAX),
        ),
    ]
    memo: Annotated[str, Field("A note that the ledger stores with the grant.", hyphen=True)] = ""

    def check_values(self) -> None:
        check_memo(self.memo)
        if not self.units:
            raise CommandError("A grant of 0 units changes nothing.", "units")

    async def run(self, change: Change) -> AccountRow:
        account = await change.account(self.name)
        if account.balance + self.units > UNITS_MAX:
            raise CommandError("The balance may be {units_max} units at most.", "units", units_max=UNITS_MAX)
        if await ledger.grant(change.db, account.id, self.units, self.memo) is None:
            raise CommandError(
                "The account has {balance} units; {units} can't be taken.",
                "units",
                balance=account.balance,
                units=-self.units,
            )
        return await change.locked(account.id)  # in the transaction: afterwards the connection may be lost

    def in_doubt(self) -> CommandError:
        return CommandError(
            "The database became unavailable: whether the {units} units were granted is"
            " unknown. Check the balance of {name!r} before you try again.",
            units=self.units,
            name=self.name,
        )


class GrantFirstUnits(GrantUnits, frozen=True):
    """Grant units to an account that has none; to another nothing is granted."""

    async def run(self, change: Change) -> AccountRow:
        account = await change.account(self.name)
        await change.compare(store.by_id, account.id)
        return account if account.balance else await super().run(change)


class RenameAccount(Action[AccountRow], frozen=True):
    """Rename an account. Its keys and units stay."""

    command = "account rename"
    name: Name
    new: Annotated[str, Field("Its new name.", argument="NEW")]

    def check_values(self) -> None:
        check_name(self.new)

    async def run(self, change: Change) -> AccountRow:
        account = await change.account(self.name)
        await change.compare(store.by_id, account.id)
        if not await store.rename(change.db, account.id, self.new):
            raise CommandError("There already is an account {new!r}.", new=self.new)
        return await change.locked(account.id)


class DisableAccount(Action[AccountRow], frozen=True):
    """Disable an account: all its keys are refused, and its sessions in the back office end."""

    command = "account disable"
    name: Name
    force: Annotated[bool, Field("Disable it even if no operator can sign in to the back office then.")] = (
        False
    )

    async def run(self, change: Change) -> AccountRow:
        account = await change.account(self.name)
        await change.compare(store.by_id, account.id)
        await store.disable(change.db, account.id)
        is_last = bool(account.operator) and not await an_operator_can_sign_in(change.db)
        if is_last and not self.force:
            raise CommandError(
                "Without {name!r} no operator could sign in to the back office; a command can disable it"
                " with --force.",
                name=self.name,
            )
        change.performed = [structs.replace(self, force=is_last)]
        return await change.locked(account.id)


class EnableAccount(Action[AccountRow], frozen=True):
    """Enable a disabled account."""

    command = "account enable"
    name: Name

    async def run(self, change: Change) -> AccountRow:
        account = await change.account(self.name)
        await change.compare(store.by_id, account.id)
        await store.enable(change.db, account.id)
        return await change.locked(account.id)


class LimitAccount(Action[None], frozen=True):
    """Limit the calls and units of an account; without options, show its limits."""

    command = "account limit"
    name: Name
    rpm: Rpm = None
    concurrent: Concurrent = None
    units_per_day: UnitsPerDay = None

    def check_values(self) -> None:
        given_limits(self)

    async def run(self, change: Change) -> None:
        account = await change.account(self.name)
        await change.compare(limit_store.limits_of, account.id, OF_ACCOUNT)
        await put_limits(change.db, account.id, given_limits(self))


class SetPreferences(Action[Preferences], frozen=True):
    """Set preferences of an account, or show them."""

    command = "account set"
    name: Name
    language: Annotated[
        str | None, Field('The language of the pages: zh, en, or "" for that of the browser.')
    ] = None
    low_balance: Annotated[
        int | None,
        Field(
            "Units below which the pages warn of a low balance; 0: never.",
            value="UNITS",
            limits=(0, UNITS_MAX),
            label="Low balance",
        ),
    ] = None

    def check_values(self) -> None:
        if self.language is not None and self.language not in LANGUAGES:
            raise CommandError("The language is zh, en, or empty for that of the browser.", "language")

    async def run(self, change: Change) -> Preferences:
        account = await change.account(self.name)
        await change.compare(store.preferences_of, account.id)
        before = await store.preferences_of(change.db, account.id)
        after = Preferences(
            language=before.language if self.language is None else self.language,
            low_balance=before.low_balance if self.low_balance is None else self.low_balance,
        )
        await store.put_preferences(change.db, account.id, after)
        return after


Session = Annotated[bytes, Field("The token hash of a session that stays.", secret=True)]


class MakeLink(Action[str], frozen=True):
    """A link with which the account's holder sets a password."""

    purpose: ClassVar[Purpose]
    name: Name

    async def run(self, change: Change) -> str:
        return await links.create(change.db, self.purpose, await change.account(self.name))


class InviteAccount(MakeLink, frozen=True):
    """Create a link with which the account's holder sets the first password. It is printed once, not stored,
    and works once, within three days."""

    command = "account invite"
    purpose = Purpose.INVITE


class ResetAccount(MakeLink, frozen=True):
    """Create a link with which the account's holder sets a new password. It is printed once, not stored, and
    works once, within an hour. The account's sessions end when it is used."""

    command = "account reset"
    purpose = Purpose.RESET


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

    def check_values(self) -> None:
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

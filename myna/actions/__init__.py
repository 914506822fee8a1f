"""Changes of the site by operators and account holders, each declared once.

An action is a struct. Its docstring is the help of its command and its fields are the arguments of that
command, the fields of the form in the back office, and what the activity records. `run` makes the change, in
the transaction that records it.
"""

import functools
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, ClassVar, Generic, Self, TypeVar, get_type_hints

from msgspec import Struct, field, structs

from myna.accounts import activity
from myna.accounts.accounts import find
from myna.accounts.activity import Actor
from myna.channels.channels import Channels
from myna.channels.keys import ChannelKeys
from myna.errors import CommandError
from myna.settings import Settings
from myna.store.database import Database, Queries, Transaction
from myna.store.queries import accounts as account_store
from myna.store.queries import config as config_store
from myna.store.queries.accounts import AccountRow
from myna.store.queries.config import Config

R = TypeVar("R")
YES_OR_NO = "YES_OR_NO"
"""The `value` of an option that is a bool, or None to leave it as it is."""


class Field(Struct, frozen=True):
    """What a field of an action means: in the command, its `help`. One with an `argument` is written without
    an option, and has this name in the usage; an option's value is called `value` there. `hyphen`: its value
    may begin with one. `limits` are the least and the largest number. A `secret` is no option, and is never
    recorded.

    The pages call it `label`. One with a `note` is drawn by the macro `declared_fields`, above this text."""

    help: str
    argument: str = ""
    value: str = ""
    hyphen: bool = False
    limits: tuple[int, int] | None = None
    secret: bool = False
    label: str = ""
    note: str = ""


class Change(Struct):
    """The transaction of an action. `owner_id` is the account whose things alone may be changed, None for an
    operator. `run` sets `account_id` to the account that the change concerns, and `performed` to the actions
    that are recorded, if not its own alone. What it appends to `last` is called when everything is recorded:
    changes of files, which no rollback undoes. What it appends to `after` is awaited after the COMMIT: the
    removal of what an unmade change still needs. `named` has the names of accounts, by what was typed."""

    db: Transaction
    by: Actor
    settings: Settings
    keys: ChannelKeys
    known_channels: Channels | None
    owner_id: int | None
    account_id: int = 0
    performed: "list[Action[Any]]" = field(default_factory=list)
    last: list[Callable[[], object]] = field(default_factory=list)
    after: list[Callable[[Database], Awaitable[object]]] = field(default_factory=list)
    named: dict[str, str] = field(default_factory=dict)
    compared: list[tuple[Callable[[], Awaitable[object]], object]] = field(default_factory=list)

    @property
    def channels(self) -> Channels:
        """The channels of this process, for changes of voices."""
        if self.known_channels is None:
            raise AssertionError("a change of voices without the channels")
        return self.known_channels

    async def compare(self, read: Callable[..., Awaitable[object]], *about: object) -> None:
        """Nothing is recorded if `read` returns the same after the change, of every `read` that is compared.
        What it reads must be locked."""
        again = functools.partial(read, self.db, *about)
        self.compared.append((again, await again()))

    async def compare_configuration(self) -> None:
        """Likewise for the operator's configuration, which this locks."""
        await config_store.lock(self.db)
        await self.compare(_configuration)

    async def has_changed(self) -> bool:
        """Whether anything that was compared is different now, or nothing was compared."""
        return not self.compared or any([await again() != before for again, before in self.compared])

    async def account(self, name: str) -> AccountRow:
        """The account of this name, which the change concerns, locked. Raises CommandError."""
        if self.owner_id is None:
            found = await find(self.db, name)
            self.named[name] = found.name
            return await self.locked(found.id)
        own = await account_store.by_name(self.db, name)
        if own is None or own.id != self.owner_id:
            raise CommandError("There is no account {name!r}.", name=name)
        return await self.locked(own.id)

    def recorded(self, action: "Action[Any]") -> "Action[Any]":
        """The action with the name of its account, which may have been found by its address."""
        place = "account" if hasattr(action, "account") else "name"
        name = self.named.get(getattr(action, place, ""))
        return structs.replace(action, **{place: name}) if name else action

    async def locked(self, account_id: int) -> AccountRow:
        """The account of this id, which the change concerns, locked. Raises CommandError."""
        await account_store.lock(self.db, account_id)
        found = await account_store.by_id(self.db, account_id)
        if found is None:
            raise CommandError("There is no such account.")
        self.account_id = account_id
        return found


class Action(Struct, Generic[R], frozen=True, kw_only=True):
    """A change, whose `run` returns R. `command` is what follows `myna`."""

    command: ClassVar[str]

    def __repr__(self) -> str:
        """Without the values, of which some are secrets."""
        return f"{type(self).__name__}(…)"

    def check(self) -> None:
        """Raises CommandError for values that are wrong in every state of the site."""
        for name, about in fields_of(type(self)).items():
            number = getattr(self, name)
            if about.limits and number is not None and not about.limits[0] <= number <= about.limits[1]:
                least, most = about.limits
                what = about.label or name.capitalize()
                raise CommandError(
                    "{what}: must be a whole number from {least} to {most}.",
                    name,
                    what=what,
                    least=least,
                    most=most,
                )
        self.check_values()

    def check_values(self) -> None:
        """Raises CommandError for values that are wrong within the limits of their numbers."""

    async def run(self, change: Change) -> R | CommandError:
        """Makes the change. Raises CommandError: then nothing is changed. What was written before an error is
        returned stays, unrecorded."""
        raise NotImplementedError

    async def prepare(self, db: Database, settings: Settings, owner_id: int | None) -> None:
        """What takes long or can't be undone, and comes before the transaction. Raises CommandError."""

    def in_doubt(self) -> CommandError | None:
        """What is said if the database became unavailable and the change may have been made."""
        return None

    @property
    def note(self) -> str:
        """A comment behind the recorded command, for a change that the command alone would not make."""
        return ""

    @property
    def words(self) -> list[str]:
        """The command that makes this change, without `myna`. An option with its default is left out."""
        values: list[Any] = []
        options: dict[str, Any] = {}
        defaults = {one.name: one.default for one in structs.fields(self)}
        for name, about in fields_of(type(self)).items():
            value = getattr(self, name)
            if about.argument:
                values += value if isinstance(value, tuple) else [value]
            elif value != defaults[name] and not about.secret:
                is_flag = defaults[name] is False or not isinstance(value, bool)
                options[name] = value if is_flag else "yes" if value else "no"
        return activity.words(*self.command.split(), *values, **options)

    def differing(self, present: Mapping[str, object]) -> Self:
        """The change without the values that are present already, as it is recorded."""
        same = [name for name, value in present.items() if getattr(self, name) == value]
        return structs.replace(
            self, **{one.name: one.default for one in structs.fields(self) if one.name in same}
        )

    def check_given(self) -> None:
        """Raises CommandError if none of its options is given."""
        defaults = {one.name: one.default for one in structs.fields(self)}
        options = [name for name, about in fields_of(type(self)).items() if not about.argument]
        if all(getattr(self, name) is defaults[name] for name in options):
            written = ", ".join("--" + name.replace("_", "-") for name in options)
            raise CommandError("Give at least one of {options}.", options=written)


async def _configuration(db: Queries) -> Config:
    return structs.replace(await config_store.load(db), version=0)


def fields_of(kind: type[Action[Any]]) -> dict[str, Field]:
    """What the fields of an action mean, in their order."""
    hints = get_type_hints(kind, include_extras=True)
    return {name: hints[name].__metadata__[0] for name in kind.__struct_fields__}


def actions() -> list[type[Action[Any]]]:
    """All that are imported, with what they have in common."""
    found: list[type[Action[Any]]] = [Action]
    for kind in found:
        found += kind.__subclasses__()
    return found


def declared(name: str) -> list[Field]:
    """What actions declare of a field of this name. It has one `value` and one `label`, where it has any."""
    return [fields_of(kind)[name] for kind in actions() if name in kind.__struct_fields__]


async def perform(
    db: Database,
    action: Action[R],
    *,
    by: Actor,
    settings: Settings,
    channels: Channels | None = None,
    keys: ChannelKeys | None = None,
    owner_id: int | None = None,
) -> R:
    """Makes the change and records it, in one transaction. Raises CommandError: then nothing is changed."""
    action.check()
    await action.prepare(db, settings, owner_id)

    async def work(connection: Transaction) -> tuple[R | CommandError, Change]:
        change = Change(
            db=connection,
            by=by,
            settings=settings,
            keys=keys or ChannelKeys(settings),
            known_channels=channels,
            owner_id=owner_id,
            performed=[action],
        )
        result = await action.run(change)
        if not isinstance(result, CommandError) and await change.has_changed():
            for one in change.performed:
                await activity.record(
                    connection, by, change.recorded(one).words, change.account_id, note=one.note
                )
        for write in change.last:
            write()
        return result, change

    try:
        result, change = await db.transaction(work)
    except db.unavailable:
        if (in_doubt := action.in_doubt()) is not None:
            raise in_doubt from None
        raise
    if isinstance(result, CommandError):
        raise result
    for remove in change.after:
        await remove(db)
    return result

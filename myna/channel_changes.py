"""Changes of the channels in the database by the operator: add, change, enable, remove."""

from msgspec import Struct

from myna import activity
from myna.activity import Actor
from myna.channels import check, from_settings
from myna.errors import CommandError
from myna.settings import Settings
from myna.store.database import Database, Queries, Transaction
from myna.store.queries import config as store
from myna.store.queries.config import ChannelRow


class Edit(Struct, frozen=True):
    """New values of a channel; None leaves one as it is."""

    url: str | None = None
    model: str | None = None
    key_env: str | None = None
    priority: int | None = None


async def add(db: Database, row: ChannelRow, *, by: Actor) -> None:
    """Adds a channel. Raises CommandError."""
    check(row)
    command = activity.words(
        *("channel", "add", row.kind, row.name, row.url),
        model=row.model or None,
        key_env=row.key_env or None,
        priority=row.priority,
    )

    async def work(connection: Transaction) -> None:
        if not await store.add_channel(connection, row):
            raise CommandError(f"There already is a channel {row.name!r}.")
        await activity.record(connection, by, command)

    await db.transaction(work)


async def change(db: Database, settings: Settings, name: str, edit: Edit, *, by: Actor) -> ChannelRow:
    """Changes a channel and returns it. Raises CommandError."""
    if edit == Edit():
        raise CommandError("Give at least one of --url, --model, --key-env and --priority.")
    command = activity.words(
        *("channel", "set", name),
        url=edit.url,
        model=edit.model,
        key_env=edit.key_env,
        priority=edit.priority,
    )

    async def work(connection: Transaction) -> ChannelRow:
        row = await store.change_channel(
            connection, name, url=edit.url, model=edit.model, key_env=edit.key_env, priority=edit.priority
        )
        if row is None:
            raise await _missing(connection, settings, name)
        check(row)
        await activity.record(connection, by, command)
        return row

    return await db.transaction(work)


async def set_enabled(db: Database, settings: Settings, name: str, enabled: bool, *, by: Actor) -> None:
    """Enables a channel, or disables it until it is enabled. Raises CommandError."""
    command = activity.words("channel", "enable" if enabled else "disable", name)

    async def work(connection: Transaction) -> None:
        if not await store.enable_channel(connection, name, enabled):
            raise await _missing(connection, settings, name)
        await activity.record(connection, by, command)

    await db.transaction(work)


async def remove(db: Database, settings: Settings, name: str, *, by: Actor) -> None:
    """Deletes a channel. Raises CommandError."""

    async def work(connection: Transaction) -> None:
        if not await store.remove_channel(connection, name):
            raise await _missing(connection, settings, name)
        await activity.record(connection, by, activity.words("channel", "remove", name))

    await db.transaction(work)


async def _missing(db: Queries, settings: Settings, name: str) -> CommandError:
    """The error for a channel that is not in the database."""
    if name in {channel.name for channel in from_settings(settings)}:
        return CommandError(f"There is no channel {name!r} in the database; it comes from the settings.")
    return no_channel(name, [row.name for row in (await store.load(db)).channels])


def no_channel(name: str, known: list[str]) -> CommandError:
    """The error for a channel that is not among the `known` names."""
    names = ", ".join(map(repr, known))
    there = f"there is {names}" if len(known) == 1 else f"there are {names or 'none'}"
    return CommandError(f"There is no channel {name!r}; {there}.")

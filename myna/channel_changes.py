"""Changes of the channels in the database and of their stored keys by the operator."""

from collections.abc import Sequence

from msgspec import Struct

from myna import activity
from myna.activity import Actor
from myna.channel_keys import ChannelKeys
from myna.channels import check, from_settings
from myna.errors import CommandError
from myna.settings import Settings
from myna.store.database import Database, Queries, Transaction
from myna.store.queries import config as store
from myna.store.queries.config import ChannelRow

PRIORITY_STEP = 10
"""Between the channels that `order` places, so that others fit in between."""


class Edit(Struct, frozen=True):
    """New values of a channel; None leaves one as it is."""

    url: str | None = None
    model: str | None = None
    key_env: str | None = None
    priority: int | None = None


async def add(db: Database, keys: ChannelKeys, row: ChannelRow, *, by: Actor) -> None:
    """Adds a channel. A key that a removed channel of its name left is removed. Raises CommandError."""
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
        keys.remove(row.name)
        await activity.record(connection, by, command)

    await db.transaction(work)


async def change(
    db: Database, settings: Settings, keys: ChannelKeys, name: str, edit: Edit, *, by: Actor
) -> ChannelRow:
    """Changes a channel and returns it. With a URL of another server its stored key is removed. Raises
    CommandError."""
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
        if not keys.read(name, row.url):
            keys.remove(name)
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


async def order(db: Database, settings: Settings, names: Sequence[str], *, by: Actor) -> None:
    """Has these channels of the database tried first, in this order, and then the others in theirs. Raises
    CommandError."""
    if len(set(names)) < len(names):
        raise CommandError("A channel can have one place only; one is named twice.")

    async def work(connection: Transaction) -> None:
        known = [row.name for row in (await store.load(connection)).channels]
        for name in names:
            if name not in known:
                raise await _missing(connection, settings, name)
        ordered = [*names, *(name for name in known if name not in names)]
        await store.order_channels(connection, ordered, PRIORITY_STEP)
        await activity.record(connection, by, activity.words("channel", "order", *names))

    await db.transaction(work)


async def store_key(
    db: Database, settings: Settings, keys: ChannelKeys, name: str, key: str, *, by: Actor
) -> None:
    """Stores the key of a channel on this machine; each process uses it from its next call. Raises
    CommandError."""

    async def work(connection: Transaction) -> None:
        row = await _row(connection, settings, name)
        await store.raise_version(connection)
        await activity.record(connection, by, activity.words("channel", "key", name))
        # Last, so that a refused change stores nothing, and before the commit, after which others read it.
        keys.store(name, row.url, key)

    await db.transaction(work)


async def remove_key(db: Database, settings: Settings, keys: ChannelKeys, name: str, *, by: Actor) -> None:
    """Removes the stored key of a channel from this machine. Raises CommandError."""

    async def work(connection: Transaction) -> None:
        await _row(connection, settings, name)
        await store.raise_version(connection)
        await activity.record(connection, by, activity.words("channel", "key", name, remove=True))
        if not keys.remove(name):
            raise CommandError(f"The channel {name!r} has no stored key on this machine.")

    await db.transaction(work)


async def remove(db: Database, settings: Settings, keys: ChannelKeys, name: str, *, by: Actor) -> None:
    """Deletes a channel, and its key on this machine. Raises CommandError."""

    async def work(connection: Transaction) -> None:
        if not await store.remove_channel(connection, name):
            raise await _missing(connection, settings, name)
        await activity.record(connection, by, activity.words("channel", "remove", name))
        keys.remove(name)

    await db.transaction(work)


async def _row(db: Queries, settings: Settings, name: str) -> ChannelRow:
    """The channel in the database. Raises CommandError."""
    for row in (await store.load(db)).channels:
        if row.name == name:
            return row
    raise await _missing(db, settings, name)


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

"""Changes of the channels in the database and of their stored keys by the operator."""

import re
from collections.abc import Sequence
from urllib.parse import urlsplit

from msgspec import Struct

from myna import activity
from myna.activity import Actor
from myna.channel_keys import ChannelKeys
from myna.channels import FROM_SETTINGS, OF_NODE, PARROT, from_settings
from myna.engines import registry
from myna.errors import CommandError
from myna.names import check_model, is_name
from myna.settings import Settings, can_name_a_key
from myna.store.database import Database, Queries, Transaction
from myna.store.queries import config as store
from myna.store.queries import routes
from myna.store.queries.config import ChannelRow
from myna.urls import is_base_url

NAME_MAX_CHARS = 100
PRIORITY_MAX = 1_000_000
WEIGHT_MAX = 1_000_000
CONCURRENT_MAX = 1_000_000
PRIORITY_STEP = 10
"""Between the channels that `order` places, so that others fit in between."""
_ENVIRONMENT_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}")


class Edit(Struct, frozen=True):
    """New values of a channel; None leaves one as it is."""

    url: str | None = None
    model: str | None = None
    key_env: str | None = None
    priority: int | None = None
    weight: int | None = None
    responses: bool | None = None
    concurrent: int | None = None


def check(row: ChannelRow) -> None:
    """Raises CommandError for an invalid channel."""
    taken = {FROM_SETTINGS, registry.DEFAULT_SPEECH, registry.ESPEAK, registry.KOKORO}
    if not is_name(row.name, NAME_MAX_CHARS) or row.name in taken:
        raise CommandError(
            "A channel needs a name of 1 to 100 printable characters, none of {taken}.", taken=sorted(taken)
        )
    if "@" in urlsplit(row.url).netloc:
        raise CommandError("The URL must not contain a login: use --key-env, or store a key for the channel.")
    own = row.url == PARROT and row.kind == "chat"
    if not own and not is_base_url(row.url):
        raise CommandError("The URL must be http://… or https://… without a query (or be parrot: for chat).")
    check_model(row.model)
    if row.kind == "speech" and not row.model:
        raise CommandError("A speech channel needs a model.")
    if not -PRIORITY_MAX <= row.priority <= PRIORITY_MAX:
        raise CommandError(
            "The priority must be from -{priority_max} to {priority_max}.", priority_max=PRIORITY_MAX
        )
    _check_weight(row.weight)
    _check_concurrent(row.concurrent)
    if row.responses and (row.kind != "chat" or row.url == PARROT):
        raise CommandError("Only the server of a chat channel offers POST /responses.")
    if row.key_env and not _ENVIRONMENT_NAME.fullmatch(row.key_env):
        raise CommandError("--key-env must be the name of an environment variable, not the key itself.")
    if not can_name_a_key(row.key_env):
        raise CommandError(
            "{key_env}: a variable that begins with MYNA_ is a setting; call it MYNA_KEY_… or otherwise.",
            key_env=row.key_env,
        )


async def add(db: Database, keys: ChannelKeys, row: ChannelRow, *, by: Actor) -> None:
    """Adds a channel. A key that a removed channel of its name left is removed. Raises CommandError."""
    check(row)
    if row.name.startswith(OF_NODE):  # an older site may have such a channel: it can be changed and removed
        raise CommandError(
            "The name of a channel can't begin with {of_node}: calls have it for the compute"
            " node that answered them.",
            of_node=OF_NODE,
        )
    command = activity.words(
        *("channel", "add", row.kind, row.name, row.url),
        model=row.model or None,
        key_env=row.key_env or None,
        priority=row.priority,
        weight=row.weight or None,
        responses=_yes_or_no(bool(row.responses) or None),
        concurrent=row.concurrent or None,
    )

    async def work(connection: Transaction) -> None:
        if not await store.add_channel(connection, row):
            raise CommandError("There already is a channel {name!r}.", name=row.name)
        keys.remove(row.name)
        await activity.record(connection, by, command)

    await db.transaction(work)


async def change(
    db: Database, settings: Settings, keys: ChannelKeys, name: str, edit: Edit, *, by: Actor
) -> ChannelRow:
    """Changes a channel and returns it. With a URL of another server its stored key is removed. Raises
    CommandError."""
    if edit == Edit():
        raise CommandError(
            "Give at least one of --url, --model, --key-env, --priority, --weight, --responses and"
            " --concurrent."
        )
    _check_weight(edit.weight or 0)
    _check_concurrent(edit.concurrent or 0)
    command = activity.words(
        *("channel", "set", name),
        url=edit.url,
        model=edit.model,
        key_env=edit.key_env,
        priority=edit.priority,
        weight=edit.weight,
        responses=_yes_or_no(edit.responses),
        concurrent=edit.concurrent,
    )

    async def work(connection: Transaction) -> ChannelRow:
        row = await store.change_channel(
            connection,
            name,
            url=edit.url,
            model=edit.model,
            key_env=edit.key_env,
            priority=edit.priority,
            weight=edit.weight,
            responses=None if edit.responses is None else int(edit.responses),
            concurrent=edit.concurrent,
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
            raise CommandError("The channel {name!r} has no stored key on this machine.", name=name)

    await db.transaction(work)


async def remove(db: Database, settings: Settings, keys: ChannelKeys, name: str, *, by: Actor) -> None:
    """Deletes a channel, and its key on this machine. Raises CommandError if there is none, or if a route
    names it."""

    async def work(connection: Transaction) -> None:
        if used := await routes.of_channel(connection, name):
            raise CommandError(
                "Routes name the channel {name!r}: {used}; change them first.",
                name=name,
                used=", ".join(used),
            )
        if not await store.remove_channel(connection, name):
            raise await _missing(connection, settings, name)
        await activity.record(connection, by, activity.words("channel", "remove", name))
        keys.remove(name)

    await db.transaction(work)


def _check_weight(weight: int) -> None:
    if not 0 <= weight <= WEIGHT_MAX:
        raise CommandError("The weight must be from 0 to {weight_max}.", weight_max=WEIGHT_MAX)


def _check_concurrent(concurrent: int) -> None:
    if not 0 <= concurrent <= CONCURRENT_MAX:
        raise CommandError(
            "The number of concurrent requests must be from 0 to {concurrent_max}.",
            concurrent_max=CONCURRENT_MAX,
        )


def _yes_or_no(flag: bool | None) -> str | None:
    return None if flag is None else "yes" if flag else "no"


async def _row(db: Queries, settings: Settings, name: str) -> ChannelRow:
    """The channel in the database. Raises CommandError."""
    for row in (await store.load(db)).channels:
        if row.name == name:
            return row
    raise await _missing(db, settings, name)


async def _missing(db: Queries, settings: Settings, name: str) -> CommandError:
    """The error for a channel that is not in the database."""
    if name in {channel.name for channel in from_settings(settings)}:
        return CommandError(
            "There is no channel {name!r} in the database; it comes from the settings.", name=name
        )
    return no_channel(name, [row.name for row in (await store.load(db)).channels])


def no_channel(name: str, known: list[str]) -> CommandError:
    """The error for a channel that is not among the `known` names."""
    if not known:
        return CommandError("There is no channel {name!r}; there are none.", name=name)
    one = len(known) == 1
    return CommandError(
        "There is no channel {name!r}; there is {known}."
        if one
        else "There is no channel {name!r}; there are {known}.",
        name=name,
        known=", ".join(map(repr, known)),
    )

"""Changes of the channels in the database and of their stored keys."""

import asyncio
import re
from typing import Annotated, Any, ClassVar, Literal
from urllib.parse import urlsplit

from msgspec import structs

from myna.actions import YES_OR_NO, Action, Change, Field
from myna.channels import keys as channel_keys
from myna.channels.channels import FROM_SETTINGS, OF_NODE, PARROT, from_settings, no_channel
from myna.channels.keys import server_of
from myna.engines import registry
from myna.errors import CommandError
from myna.gateway.trial import wrong_url
from myna.lib.names import check_model, is_name
from myna.lib.net import is_base_url
from myna.settings import can_name_a_key
from myna.store.database import Database
from myna.store.queries import config as store
from myna.store.queries.config import ChannelRow

NAME_MAX_CHARS = 100
PRIORITY_MAX = 1_000_000
PRIORITY_DEFAULT = 100
PRIORITY_STEP = 10
"""Between the channels that `channel order` places, so that others fit in between."""
SPEECH_MODEL = "tts-1"
"""The model of a speech channel that names none."""
_ENVIRONMENT_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}")
Name = Annotated[str, Field("The name of the channel.", argument="NAME")]
_URL = "An OpenAI-compatible base URL, or parrot: for chat."
_MODEL = Field("The model to request.", label="Model")
_KEY_ENV = Field(
    "The environment variable that contains the key.", value="VARIABLE", label="Variable with the key"
)
_PRIORITY = Field(
    "Channels with a lower number are tried first.",
    value="NUMBER",
    limits=(-PRIORITY_MAX, PRIORITY_MAX),
    label="Priority",
    note="Channels with a lower number are tried first. Empty: after all others.",
)
_WEIGHT = Field(
    "Its share among the channels of its priority; 0 for none.",
    value="NUMBER",
    limits=(0, 1_000_000),
    label="Weight",
    note=(
        "Its share of the calls among channels of one priority. Empty or 0: they are tried one after the"
        " other."
    ),
)
_RESPONSES = Field(
    "Whether the server offers POST /responses: yes or no.",
    value=YES_OR_NO,
    label="Its server offers POST /responses",
    note="For chat: such requests are passed on as they are, instead of being translated.",
)
_CONCURRENT = Field(
    "How many requests of a process to it may be open; 0 for its share of all.",
    value="NUMBER",
    limits=(0, 1_000_000),
    label="Concurrent requests",
    note=(
        "How many requests to this channel may be open at a time. Empty or 0: three quarters of all"
        " outbound connections."
    ),
)


class AddChannel(Action[ChannelRow], frozen=True):
    """Add a channel; those with a lower priority number are tried first."""

    command = "channel add"
    kind: Annotated[Literal["chat", "speech"], Field("What the channel does.", argument="KIND")]
    name: Name
    url: Annotated[str, Field(_URL, argument="URL", label="Base URL")]
    model: Annotated[str, _MODEL] = ""
    key_env: Annotated[str, _KEY_ENV] = ""
    priority: Annotated[int, _PRIORITY] = PRIORITY_DEFAULT
    weight: Annotated[int, _WEIGHT] = 0
    responses: Annotated[bool | None, _RESPONSES] = None
    concurrent: Annotated[int, _CONCURRENT] = 0
    key: Annotated[str, Field("The key that is stored for it.", secret=True)] = ""

    @property
    def row(self) -> ChannelRow:
        values = _given(self)
        values["model"] = self.model or (SPEECH_MODEL if self.kind == "speech" else "")
        return ChannelRow(**values)

    def check_values(self) -> None:
        check_row(self.row)
        _check_endpoint(self.url)
        if self.name.startswith(OF_NODE):  # an older site may have one: it can be changed and removed
            raise CommandError(
                "The name of a channel can't begin with {of_node!r}: calls show the compute"
                " node that answered them so.",
                "name",
                of_node=OF_NODE,
            )
        if self.key:
            channel_keys.check(self.name, self.key)

    async def run(self, change: Change) -> ChannelRow:
        row = self.row
        if self.key:
            row = structs.replace(row, stored_key=change.keys.stored(row, self.key))
            change.performed.append(SetChannelKey(name=self.name))
        if not await store.add_channel(change.db, row):
            raise CommandError("There already is a channel {name!r}.", name=self.name)
        # Without a key too: a channel of this name that was removed may have left one.
        change.last.append(lambda: change.keys.store(row, self.key))
        return row


class SetChannel(Action[ChannelRow], frozen=True):
    """Change a channel; options that are not given stay as they are."""

    command = "channel set"
    name: Name
    url: Annotated[str | None, Field(_URL)] = None
    model: Annotated[str | None, _MODEL] = None
    key_env: Annotated[str | None, _KEY_ENV] = None
    priority: Annotated[int | None, _PRIORITY] = None
    weight: Annotated[int | None, _WEIGHT] = None
    responses: Annotated[bool | None, _RESPONSES] = None
    concurrent: Annotated[int | None, _CONCURRENT] = None

    def check_values(self) -> None:
        self.check_given()
        _check_endpoint(self.url or "")

    async def run(self, change: Change) -> ChannelRow:
        await change.compare_configuration()
        before = await _row(change, self.name)
        row = structs.replace(before, **_given(self))
        check_row(row)
        if server_of(row.url) != server_of(before.url):  # a stored key is for one server alone
            row = structs.replace(row, stored_key="")
            change.last.append(lambda: change.keys.remove(row.name))
        await store.put_channel(change.db, row)
        present = {name: getattr(before, name) for name in self.__struct_fields__ if name != "name"}
        change.performed = [self.differing(present)]
        return row


class OrderChannels(Action[None], frozen=True):
    """Try these channels first, in this order, and then the others."""

    command = "channel order"
    names: Annotated[tuple[str, ...], Field("The names of channels.", argument="NAME")]

    def check_values(self) -> None:
        if len(set(self.names)) < len(self.names):
            raise CommandError("A channel can have one place only; one is named twice.")

    async def run(self, change: Change) -> None:
        await change.compare_configuration()
        for name in self.names:
            await _row(change, name)
        others = [row.name for row in (await store.load(change.db)).channels if row.name not in self.names]
        await store.order_channels(change.db, [*self.names, *others], PRIORITY_STEP)


class SetChannelKey(Action[None], frozen=True):
    """Store the key of a channel, read from standard input: encrypted, or in a file of this machine."""

    command = "channel key"
    name: Name
    remove: Annotated[bool, Field("Remove the stored key.")] = False
    key: Annotated[str, Field("The key.", secret=True)] = ""

    def check_values(self) -> None:
        if not self.remove:
            channel_keys.check(self.name, self.key)

    async def run(self, change: Change) -> None:
        before = await _row(change, self.name)
        row = structs.replace(before, stored_key="" if self.remove else change.keys.stored(before, self.key))
        await store.put_channel(change.db, row)
        change.last.append(
            lambda: self._remove(change, before) if self.remove else change.keys.store(row, self.key)
        )

    def _remove(self, change: Change, row: ChannelRow) -> None:
        if not change.keys.remove(self.name) and not row.stored_key:
            raise CommandError("The channel {name!r} has no stored key on this machine.", name=self.name)


class TryChannel(Action[None], frozen=True):
    """Send a channel a test request and print the result."""

    command = "channel test"
    name: Name
    model: Annotated[str, Field("The model to request in place of the channel's.")] = ""

    def check_values(self) -> None:
        check_model(self.model)

    async def run(self, change: Change) -> None:
        return  # the request follows its record: no transaction waits for a server


class RekeyChannels(Action[dict[str, str]], frozen=True):
    """Encrypt the stored keys of all channels with the first key of MYNA_SECRET_KEY."""

    command = "channel rekey"

    async def run(self, change: Change) -> dict[str, str]:
        if not change.keys.encrypting:
            raise CommandError("MYNA_SECRET_KEY is not set.")
        await store.raise_version(change.db)
        found = {}
        encrypted: list[str] = []
        for row in (await store.load(change.db)).channels:
            if key := change.keys.read(row):
                row = structs.replace(row, stored_key=change.keys.stored(row, key))
                await store.put_channel(change.db, row)
                encrypted.append(row.name)
                found[row.name] = "encrypted"
            elif row.stored_key == channel_keys.IN_FILE:
                found[row.name] = "in a file of another machine"
            elif row.stored_key:
                raise CommandError(
                    "The stored key of the channel {name!r} is encrypted with another MYNA_SECRET_KEY.",
                    name=row.name,
                )

        async def remove_files(_: Database) -> None:
            for name in encrypted:
                await asyncio.to_thread(change.keys.remove, name)

        change.after.append(remove_files)
        return found


class _SwitchChannel(Action[None], frozen=True):
    enabled: ClassVar[bool]
    name: Name

    async def run(self, change: Change) -> None:
        await change.compare_configuration()
        row = await _row(change, self.name)
        await store.put_channel(change.db, structs.replace(row, enabled=self.enabled))


class EnableChannel(_SwitchChannel, frozen=True):
    """Enable a channel."""

    command = "channel enable"
    enabled = True


class DisableChannel(_SwitchChannel, frozen=True):
    """Disable a channel until it is enabled."""

    command = "channel disable"
    enabled = False


class RemoveChannel(Action[None], frozen=True):
    """Delete a channel, and its key on this machine."""

    command = "channel remove"
    name: Name

    async def run(self, change: Change) -> None:
        routes = await store.load_routes(change.db)
        if used := [route.name for route in routes if self.name in route.channels]:
            raise CommandError(
                "Routes name the channel {name!r}: {used}; change them first.",
                name=self.name,
                used=", ".join(used),
            )
        await _row(change, self.name)
        await store.remove_channel(change.db, self.name)
        change.last.append(lambda: change.keys.remove(self.name))


def _given(action: AddChannel | SetChannel) -> dict[str, Any]:
    """The values that are given, as fields of the row."""
    values = {name: getattr(action, name, None) for name in ChannelRow.__struct_fields__}
    return {name: value for name, value in values.items() if value is not None}


def check_row(row: ChannelRow) -> None:
    """Raises CommandError for an invalid channel."""
    taken = {FROM_SETTINGS, registry.DEFAULT_SPEECH, registry.ESPEAK, registry.KOKORO}
    if not is_name(row.name, NAME_MAX_CHARS) or row.name in taken:
        raise CommandError(
            "A channel needs a name of 1 to 100 printable characters, none of {taken}.",
            "name",
            taken=sorted(taken),
        )
    if "@" in urlsplit(row.url).netloc:
        raise CommandError(
            "The URL must not contain a login: name the variable that has the key, or store a key for the"
            " channel.",
            "url",
        )
    own = row.url == PARROT and row.kind == "chat"
    if not own and not is_base_url(row.url):
        raise CommandError(
            "The URL must be http://… or https://… without a query (or be parrot: for chat).", "url"
        )
    check_model(row.model)
    if row.kind == "speech" and not row.model:
        raise CommandError("A speech channel needs a model.", "model")
    if row.responses and (row.kind != "chat" or row.url == PARROT):
        raise CommandError("Only the server of a chat channel offers POST /responses.", "responses")
    if row.key_env and not _ENVIRONMENT_NAME.fullmatch(row.key_env):
        raise CommandError(
            "The key's variable is named, such as VENDOR_KEY; the key itself is not written.", "key_env"
        )
    if not can_name_a_key(row.key_env):
        raise CommandError(
            "{key_env}: a variable that begins with MYNA_ is a setting; call it MYNA_KEY_… or otherwise.",
            key_env=row.key_env,
        )


def _check_endpoint(url: str) -> None:
    if cause := wrong_url(url):
        raise CommandError(cause.sentence, **cause.values)


async def _row(change: Change, name: str) -> ChannelRow:
    """The channel of the database, locked. Each process reads it, and its key, again from its next call on.
    Raises CommandError."""
    await store.raise_version(change.db)
    rows = (await store.load(change.db)).channels
    for row in rows:
        if row.name == name:
            return row
    if name in {channel.name for channel in from_settings(change.settings)}:
        raise CommandError(
            "There is no channel {name!r} in the database; it comes from the settings.", name=name
        )
    raise no_channel(name, [row.name for row in rows])

"""Changes of the site itself: its settings, the models on its machine, and its compute nodes."""

import secrets
from typing import Annotated, ClassVar, Literal

from msgspec import Struct

from myna import config
from myna.actions import Action, Change, Field
from myna.errors import CommandError
from myna.farm.nodes import NAME_MAX_CHARS, TOKEN_LIFE_MS, TOKEN_PREFIX, hash_of
from myna.lib.names import check_name
from myna.store.queries import config as config_store
from myna.store.queries.farm import nodes as store
from myna.voices.overrides import list_public
from myna.wire import openai

Name = Annotated[str, Field("The name of the node.", argument="NAME")]


class Invitation(Struct, frozen=True):
    """A join token in plain text, which is not shown again. `expires_at` in Unix seconds."""

    name: str
    token: str
    expires_at: int


class EnrollNode(Action[Invitation], frozen=True):
    """Create a token with which a machine joins as a compute node. It is printed once, not stored, and works
    once, within an hour. It replaces an earlier token; the credential of a node that has joined stays valid
    until the token is used."""

    command = "node enroll"
    name: Name
    again: Annotated[bool, Field("Replace the credential of a node that has joined.")] = False

    def check_values(self) -> None:
        check_name(self.name, NAME_MAX_CHARS)

    async def run(self, change: Change) -> Invitation:
        token = TOKEN_PREFIX + secrets.token_hex(20)
        hashed = hash_of(token.encode())
        until = await store.invite(change.db, self.name, hashed, TOKEN_LIFE_MS, self.again)
        if until is None:
            raise CommandError(
                "The node {name!r} has joined already; 'myna node enroll NAME --again' makes a"
                " token that replaces its credential when it is used.",
                name=self.name,
            )
        return Invitation(self.name, token, until // 1000)


class _SetNodeState(Action[None], frozen=True):
    state: ClassVar[Literal["enable", "disable", "drain"]]
    name: Name

    async def run(self, change: Change) -> None:
        await change.compare(store.locked_state, self.name)
        _check_found(self.name, await store.set_state(change.db, self.name, self.state))


class DisableNode(_SetNodeState, frozen=True):
    """Disable a node: its requests are refused and its tasks requeued."""

    command = "node disable"
    state = "disable"


class EnableNode(_SetNodeState, frozen=True):
    """Enable a node that is disabled or draining."""

    command = "node enable"
    state = "enable"


class DrainNode(_SetNodeState, frozen=True):
    """Drain a node: it finishes its tasks and gets no more."""

    command = "node drain"
    state = "drain"


class RemoveNode(Action[None], frozen=True):
    """Delete a node with its credential and voices; its tasks are requeued."""

    command = "node remove"
    name: Name

    async def run(self, change: Change) -> None:
        _check_found(self.name, await store.remove(change.db, self.name))


def _check_found(name: str, found: bool) -> None:
    if not found:
        raise CommandError("There is no node {name!r}.", name=name)


class SetSetting(Action[None], frozen=True):
    """Change one site setting; running servers use it at once."""

    command = "settings set"
    name: Annotated[str, Field("The name of a site setting in `myna settings list`.", argument="NAME")]
    value: Annotated[str, Field("Its new value.", argument="VALUE")]

    def check_values(self) -> None:
        config.check(self.name, self.value)

    async def run(self, change: Change) -> None:
        if self.name == "openai_voices" and change.known_channels is not None:
            await self._check_voices(change)
        await change.compare_configuration()
        await config_store.set_setting(change.db, self.name, self.value)

    async def _check_voices(self, change: Change) -> None:
        """Raises CommandError for a voice that the site doesn't have, but for the defaults."""
        usual = openai.voice_mapping(openai.DEFAULT_VOICES)
        public = {one.voice.voice_id for one in await list_public(change.db, change.channels)}
        for name, voice_id in openai.voice_mapping(self.value).items():
            if voice_id not in public and usual.get(name) != voice_id:
                raise CommandError("There is no public voice {voice_id!r}.", voice_id=voice_id)


class _OfModel(Action[None], frozen=True):
    """What another program does, which is recorded: it takes minutes, and needs no database. So the commands
    are those of `myna.cli.models`."""

    name: Annotated[str, Field("The name of a model in `myna models list`.", argument="NAME")]

    async def run(self, change: Change) -> None:
        return


class GetModel(_OfModel, frozen=True):
    """Fetch a published model, check every file, and put it into the data folder."""

    command = "models get"


class RemoveModel(_OfModel, frozen=True):
    """Remove a model from the data folder, and what an interrupted download left."""

    command = "models remove"

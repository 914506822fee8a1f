"""The voices that an account can use now, as GET /voices lists them."""

from functools import partial

from msgspec import Struct

from myna.engines.interface import EngineVoice
from myna.office.visit import Visit
from myna.speech import catalogue as voices
from myna.store.queries import clones
from myna.store.queries import config as config_store
from myna.store.queries.config import Config


class UsableVoices(Struct, frozen=True):
    """Public voices and the account's cloned ones. `default` is the id of the first one, "" without one."""

    public: list[EngineVoice]
    cloned: list[EngineVoice]
    config: Config

    @property
    def default(self) -> str:
        return next((voice.voice_id for voice in (*self.public, *self.cloned)), "")


async def usable_voices(visit: Visit) -> UsableVoices:
    """The voices that can be spoken now, in the order of GET /voices."""
    parts = visit.parts
    await parts.config.at(await visit.read(config_store.version))
    config = await parts.config.with_nodes()
    nodes = await parts.capacity.nodes(config)
    ready = await visit.read(partial(clones.ready, account_id=visit.account.id)) if nodes else []
    return UsableVoices(
        public=voices.usable(parts.channels, config, nodes),
        cloned=voices.usable_clones(ready, config, nodes),
        config=config,
    )

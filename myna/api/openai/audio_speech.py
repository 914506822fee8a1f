"""POST /audio/speech, GET /audio/voices."""

from functools import partial

from myna.accounts.keys import Scope
from myna.api import units
from myna.api.auth import KeyAuth
from myna.channels.channels import Channels
from myna.config import ConfigCache
from myna.farm.nodes import Capacity
from myna.http.request import Request
from myna.http.responses import Response
from myna.http.stream import ResponseStream
from myna.speech import catalogue as voices
from myna.speech.delivery import SoundResponse
from myna.speech.streamed import StreamedSpeech, named
from myna.store.database import Database
from myna.store.queries import clones
from myna.wire.body import to_json
from myna.wire.openai import AudioVoices


class AudioSpeechApi:
    """Handlers of speech for OpenAI's clients."""

    def __init__(
        self,
        key_auth: KeyAuth,
        db: Database,
        config: ConfigCache,
        channels: Channels,
        capacity: Capacity,
        streamed: StreamedSpeech,
    ) -> None:
        self._key_auth = key_auth
        self._db = db
        self._config = config
        self._channels = channels
        self._capacity = capacity
        self._streamed = streamed

    async def speak(self, request: Request) -> ResponseStream:
        caller, body = await self._key_auth.caller_and_body(request, Scope.TTS)
        stream = request.stream()
        response = SoundResponse(stream, partial(units.headers_with_channel, caller.details))
        await self._streamed.speak(caller, body, response, request.disconnected)
        return stream

    async def voices(self, request: Request) -> Response:
        verified = await self._key_auth.verify(request, Scope.TTS)
        await self._key_auth.in_time(self._config.at(verified.config_version))
        config = await self._key_auth.in_time(self._config.with_nodes())
        nodes = await self._key_auth.in_time(self._capacity.nodes(config))
        own = clones.ready(self._db, verified.key.account_id) if nodes else None
        cloned = voices.usable_clones(await self._key_auth.in_time(own), config, nodes) if own else []
        usable = [*voices.usable(self._channels, config, nodes), *cloned]
        return Response(to_json(AudioVoices(named(usable, self._config.settings.openai_voices))))

"""Finds out whether a channel is at fault whose calls fail: a small request of our own, charged to nobody.

It counts for the channel's circuit: a failure opens it. A channel that refuses the request answers, and is
not at fault. The request is of the kind of the calls that failed, and for a model that the operator named.
"""

import contextlib
from typing import Final

import msgspec

from myna.channels.channels import PARROT, Channel, Channels
from myna.channels.routes import RouteKind
from myna.errors import CommandError, Overloaded, UpstreamFailed
from myna.gateway import trial as channel_trial
from myna.gateway.chat import upstream
from myna.gateway.chat.failover import FailedAttempt, Nobody, answer_of, first_answer
from myna.http.client import HttpClient
from myna.settings import Settings
from myna.store.files.audio import AudioStore
from myna.store.queries.config import Config
from myna.wire.failures import FULL, NO_FILE

DEADLINE_S: Final = 60.0
TOKENS_MAX: Final = 16
CHAT_MODEL: Final = "svc-chat"
"""What a channel without a model is asked for by calls of /v1."""


class Prober:
    """Probes the channels of one process."""

    def __init__(
        self, http_client: HttpClient, channels: Channels, settings: Settings, audio: AudioStore
    ) -> None:
        self._http_client = http_client
        self._channels = channels
        self._settings = settings
        self._audio = audio
        self._deadline_s = min(DEADLINE_S, settings.upstream_idle_s)

    async def probe(self, config: Config, name: str, kind: str) -> None:
        """Probes a channel after failures of requests of this kind, and counts the result."""
        channel = next((one for one in self._channels.all(config) if one.name == name and one.enabled), None)
        if channel is None or channel.url == PARROT:
            self._channels.circuits.succeeded(name)
        elif channel.kind == RouteKind.SPEECH:
            await self._speech(channel)
        else:
            await self._chat(channel, kind or RouteKind.CHAT, _model_of(channel, config, kind))

    async def _speech(self, channel: Channel) -> None:
        engine = self._channels.engine(channel)
        if engine is None:
            return
        audio, path = self._audio.new()
        try:
            with contextlib.suppress(CommandError):  # the trial has counted it
                await channel_trial.speech(
                    self._http_client, self._channels, channel, engine, path, self._deadline_s
                )
        finally:
            await self._audio.discard(audio)

    async def _chat(self, channel: Channel, kind: str, model: str) -> None:
        async def attempt(channel: Channel, left_s: float) -> None:
            await self._request(channel, kind, model, left_s)

        try:
            if kind == RouteKind.CHAT:
                conversation = {"messages": channel_trial.MESSAGES, "max_tokens": TOKENS_MAX}
                await upstream.ask(
                    self._http_client,
                    self._channels,
                    [channel],
                    model or CHAT_MODEL,
                    msgspec.json.encode(conversation),
                    "",
                    asker=Nobody(),
                    seconds=self._deadline_s,
                    fair_try_s=0,
                    answer_max_bytes=self._settings.answer_max_bytes,
                )
            else:
                await first_answer(
                    self._channels,
                    [channel],
                    attempt,
                    asker=Nobody(),
                    seconds=self._deadline_s,
                    fair_try_s=0,
                )
        except (UpstreamFailed, Overloaded) as error:
            failed = error.__cause__
            if (
                isinstance(failed, FailedAttempt)
                and failed.blameless
                and failed.meaning not in (FULL, NO_FILE)
            ):
                self._channels.circuits.succeeded(channel.name)

    async def _request(self, channel: Channel, kind: str, model: str, left_s: float) -> None:
        """A request for the embedding of a word, or where no such is known, for the server's models."""
        embeds = kind == RouteKind.EMBEDDINGS and model
        await answer_of(
            self._http_client,
            channel,
            "/embeddings" if embeds else "/models",
            msgspec.json.encode({"model": model, "input": "hello"}) if embeds else None,
            method="POST" if embeds else "GET",
            deadline_s=left_s,
            answer_max_bytes=self._settings.answer_max_bytes,
        )


def _model_of(channel: Channel, config: Config, kind: str) -> str:
    """The channel's model, or that of a route of this kind; "" if there is none."""
    of_routes = (
        row.upstream_model or row.name
        for row in config.routes
        if row.kind == kind
        and not row.name.endswith("*")
        and channel.name in (row.channels or [channel.name])
    )
    return channel.model or next(of_routes, "")

"""Requests of our own to a channel, charged to nobody: an operator's trial, and the probe of a failing one;
and the likely cause why a channel does not work, found with requests that cost nothing.

A trial, as a voice that is heard, counts for the channel's circuit as a call does, so a success closes it.

A probe finds out whether the channel is at fault. It counts for the circuit too: a failure opens it. A
channel that refuses the request answers, and is not at fault. The request is of the kind of the calls that
failed, and for a model that the operator named.
"""

import contextlib
import os
import re
import time
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec import Struct

from myna.channels.channels import PARROT, Channel, Channels, is_local
from myna.channels.circuits import OPERATOR
from myna.channels.routes import RouteKind
from myna.engines.interface import Engine, EngineBusy, EngineFailed, Utterance, UtteranceRefused
from myna.errors import CommandError, Overloaded, UpstreamFailed
from myna.errors.sentences import SentenceError
from myna.gateway.failover import ChannelClient, FailedAttempt, Nobody, without_secrets
from myna.gateway.models import ask, models_in
from myna.gateway.relay.plan import CHAT
from myna.gateway.relay.v1 import first_choice
from myna.http.client import HttpClient, RequestFailed
from myna.lib.net import without_login
from myna.store.files.named_files import AudioStore
from myna.store.queries.config import Config
from myna.wire.failures import FULL, NO_FILE, NOT_OFFERED, REFUSED, read

MESSAGE = "Say hello."
MESSAGES = [{"role": "user", "content": MESSAGE}]
TEXT = "Hello."
ANSWER_MAX_CHARS = 200
LISTEN_MAX_S = 60.0
NOT_SPOKEN = "No channel speaks it now."
PROBE_MAX_S: Final = 60.0
PROBE_TOKENS_MAX: Final = 16
CHAT_MODEL: Final = "svc-chat"
"""What a channel without a model is asked for by calls of /v1."""
CAUSE_WAIT_S: Final = 3.0
"""How long a server has to list its models."""
MODELS_SHOWN: Final = 10
SAID_MAX_CHARS: Final = 200
ENDPOINTS: Final = (
    "/chat/completions", "/completions", "/chat", "/responses", "/embeddings", "/models", "/audio/speech",
    "/audio/transcriptions", "/audio/translations", "/audio/voices", "/audio",
)  # fmt: skip
_VERSIONED: Final = re.compile(r"/v\d+[a-z0-9]*(/|$)")
_REFUSALS: Final = (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN)


class Trial(Struct, frozen=True):
    """What a channel answered, after `ms`. A speech channel spoke in `voice`, of `voices`, for `sound_s`."""

    ms: int
    answer: str = ""
    voice: str = ""
    voices: int = 0
    sound_s: float = 0.0


async def chat(channel_client: ChannelClient, channel: Channel, deadline_s: float) -> Trial:
    """Sends a chat channel MESSAGE. Raises CommandError."""
    began = time.monotonic()
    try:
        asking = partial(_content, channel_client, {"model": channel.model, "messages": MESSAGES})
        answer = await channel_client.first_answer([channel], asking, asker=Nobody(deadline_s))
    except (UpstreamFailed, Overloaded) as failure:
        raise await _failed(channel_client.http_client, channel, failure) from None
    return Trial(ms=_ms_since(began), answer=answer[:ANSWER_MAX_CHARS])


async def _content(
    channel_client: ChannelClient, request: dict[str, Any], channel: Channel, left_s: float
) -> str:
    """The content of a channel's answer to a chat. Raises FailedAttempt."""
    if channel.url == PARROT:
        return f"🦜 {MESSAGE}"
    body = msgspec.json.encode({"stream": False, **request})
    answer = await channel_client.answer_of(channel, CHAT.path, body, deadline_s=left_s)
    return first_choice(answer.body, channel).message.content


async def speech(
    channel_client: ChannelClient, channel: Channel, engine: Engine, path: Path, deadline_s: float
) -> Trial:
    """Has a speech channel speak TEXT in its first voice, into a new file at `path`. An engine of this
    machine has been started. Raises CommandError."""
    circuits = channel_client.channels.circuits
    try:
        if not is_local(channel):
            await engine.start()
        if not engine.voices:
            raise EngineFailed("The speech server lists no voice.")
        voice = engine.voices[0]
        began = time.monotonic()
        utterance = Utterance(text=TEXT, voice_id=voice.voice_id, speed=1.0)
        spoken = await engine.speak(utterance, path, deadline_s)
    except EngineFailed as failure:
        if isinstance(failure, UtteranceRefused):
            circuits.succeeded(channel.name)
        elif not isinstance(failure, EngineBusy):
            circuits.failed(channel.name, str(failure), OPERATOR)
        raise await _failed(channel_client.http_client, channel, failure) from None
    circuits.succeeded(channel.name)
    return Trial(
        ms=_ms_since(began),
        voice=voice.voice_id,
        voices=len(engine.voices),
        sound_s=spoken.seconds,
    )


async def listen(channels: Channels, config: Config, voice_id: str, text: str, path: Path) -> None:
    """Has the first available channel with this voice speak `text` into a new file at `path`. Charged to
    no account. Raises CommandError."""
    failure = NOT_SPOKEN
    for channel in channels.speech(config):
        if channel.up and any(voice.voice_id == voice_id for voice in channel.voices):
            utterance = Utterance(text=text, voice_id=channel.engine_voice_id(voice_id), speed=1.0)
            try:
                await channel.engine.speak(utterance, path, LISTEN_MAX_S)
            except EngineFailed as failed:
                failure = str(failed)
            else:
                return
    raise CommandError("The voice {voice_id!r} can't be heard: {failure}", voice_id=voice_id, failure=failure)


def _ms_since(began: float) -> int:
    return round((time.monotonic() - began) * 1000)


async def _failed(http_client: HttpClient, channel: Channel, failure: Exception) -> CommandError:
    """The error about a failed trial, with its likely cause."""
    why, refused = _reason(failure, channel)
    cause = await likely_cause(http_client, channel, told=why, refused=refused)
    if cause is None:
        return CommandError("The channel {name!r} failed: {failure}.", name=channel.name, failure=why)
    return CommandError(
        "The channel {name!r} failed: {failure}. {cause}", name=channel.name, failure=why, cause=cause
    )


def _reason(failure: Exception, channel: Channel) -> tuple[str, bool]:
    """The message of the deepest cause whose text never contains a secret, with what the server said; and
    whether the server refused the request."""
    deepest: BaseException = failure
    message, said, refused = str(failure), "", isinstance(failure, UtteranceRefused)
    while deepest.__cause__ is not None:
        deepest = deepest.__cause__
        if isinstance(deepest, RequestFailed | FailedAttempt):
            message = str(deepest)
        if isinstance(deepest, FailedAttempt):
            said = in_line(deepest.server_error.message, channel)
            refused = deepest.meaning in (REFUSED, NOT_OFFERED)
    if isinstance(deepest, OSError) and deepest.errno:
        known = os.strerror(deepest.errno) if deepest.errno > 0 else deepest.strerror
        message = f"it can't be reached: {known}"
    return f"{message}: {said}" if said else message.rstrip("."), refused


class Cause(SentenceError):
    """A sentence about a channel that says what to change."""


async def likely_cause(
    http_client: HttpClient, channel: Channel, *, told: str = "", refused: bool = False
) -> Cause | None:
    """What is probably wrong with a channel, if that can be told. `refused`: its server refused a request
    without a mistake. `told` is what the operator is told already."""
    if channel.url == PARROT or is_local(channel):
        return None
    if wrong := cause_in_url(channel.url):
        return wrong
    base = channel.url.rstrip("/")
    answer = await ask(http_client, base, channel.headers(), CAUSE_WAIT_S)
    if answer is None:
        return None
    if answer.status in _REFUSALS:
        message = in_line(read(answer.status, answer.body).message, channel)
        return _cause_of_refused_key(channel, "" if message in told else message)
    models = models_in(answer)
    if not models and not _VERSIONED.search(base):
        below = await ask(http_client, f"{base}/v1", channel.headers(), CAUSE_WAIT_S)
        found = below and (below.status in _REFUSALS or models_in(below))
        if found or (refused and answer.status == HTTPStatus.NOT_FOUND):
            return Cause("Its base URL lacks /v1: use {base}/v1.", base=without_login(base))
    if refused or (channel.kind == "chat" and channel.model):  # what serves speech often lists other models
        return _cause_of_unlisted_model(channel.model, models or [])
    return None


def cause_in_url(url: str) -> Cause | None:
    """What is wrong with a base URL, if that can be told without its server."""
    base = without_login(url.rstrip("/"))
    endpoint = next((each for each in ENDPOINTS if base.endswith(each)), "")
    if not endpoint:
        return None
    return Cause(
        "Its base URL ends in an endpoint, {endpoint}: use {base}.",
        endpoint=endpoint,
        base=base.removesuffix(endpoint),
    )


def wrong_url(url: str) -> Cause | None:
    """What is certainly wrong with a base URL: an endpoint in two parts, or after a version. A server may
    have its API below /models."""
    cause = cause_in_url(url)
    endpoint, base = (str(cause.values[name]) for name in ("endpoint", "base")) if cause else ("", "")
    return cause if endpoint.count("/") > 1 or _VERSIONED.search(base) else None


def in_line(text: str, channel: Channel) -> str:
    """A server's sentence, for the operator: the beginning, in one line, without the channel's secrets."""
    plain = "".join(each if each.isprintable() else " " for each in without_secrets(text, channel))
    return " ".join(plain.split())[:SAID_MAX_CHARS].rstrip(".")


def _cause_of_refused_key(channel: Channel, message: str) -> Cause:
    if not channel.key:
        return Cause("Its server asks for a key: store one, or name the variable that contains it.")
    if message:
        return Cause("Its server refuses the key: {said}.", said=message)
    return Cause("Its server refuses the key.")


def _cause_of_unlisted_model(model: str, models: list[str]) -> Cause | None:
    if not models or model in models or f"{model}:latest" in models:
        return None
    more = len(models) - MODELS_SHOWN
    shown = ", ".join(models[:MODELS_SHOWN]) + (f", … ({more})" if more > 0 else "")
    if not model:
        return Cause("It has no model of its own; its server lists {models}.", models=shown)
    return Cause(
        "Its server does not list the model {model!r}; it lists {models}.", model=model, models=shown
    )


@dataclass(frozen=True, slots=True, eq=False)
class Prober:
    """Probes the channels of one process."""

    channel_client: ChannelClient
    audio: AudioStore

    @property
    def _deadline_s(self) -> float:
        return min(PROBE_MAX_S, self.channel_client.settings.upstream_idle_s)

    async def probe(self, config: Config, name: str, kind: str) -> None:
        """Probes a channel after failures of requests of this kind, and counts the result."""
        channels = self.channel_client.channels
        channel = next((one for one in channels.all(config) if one.name == name and one.enabled), None)
        if channel is None or channel.url == PARROT:
            channels.circuits.succeeded(name)
        elif channel.kind == RouteKind.SPEECH:
            await self._speech(channel)
        else:
            await self._chat(channel, kind or RouteKind.CHAT, _model_of(channel, config, kind))

    async def _speech(self, channel: Channel) -> None:
        engine = self.channel_client.channels.engine(channel)
        if engine is None:
            return
        audio, path = self.audio.new()
        try:
            with contextlib.suppress(CommandError):  # the trial has counted it
                await speech(self.channel_client, channel, engine, path, self._deadline_s)
        finally:
            await self.audio.discard(audio)

    async def _chat(self, channel: Channel, kind: str, model: str) -> None:
        async def attempt(channel: Channel, left_s: float) -> None:
            if kind == RouteKind.CHAT:
                request = {"messages": MESSAGES, "max_tokens": PROBE_TOKENS_MAX, "model": model or CHAT_MODEL}
                await _content(self.channel_client, request, channel, left_s)
            else:
                await self._request(channel, kind, model, left_s)

        try:
            await self.channel_client.first_answer(
                [channel], attempt, asker=Nobody(self._deadline_s), kind=kind, fair_try_s=0
            )
        except (UpstreamFailed, Overloaded) as error:
            failed = error.__cause__
            if (
                isinstance(failed, FailedAttempt)
                and failed.blameless
                and failed.meaning not in (FULL, NO_FILE)
            ):
                self.channel_client.channels.circuits.succeeded(channel.name)

    async def _request(self, channel: Channel, kind: str, model: str, left_s: float) -> None:
        """A request for the embedding of a word, or where no such is known, for the server's models."""
        embeds = kind == RouteKind.EMBEDDINGS and model
        await self.channel_client.answer_of(
            channel,
            "/embeddings" if embeds else "/models",
            msgspec.json.encode({"model": model, "input": "hello"}) if embeds else None,
            method="POST" if embeds else "GET",
            deadline_s=left_s,
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

"""Speech by servers with OpenAI's POST /audio/speech: OpenAI, Kokoro-FastAPI, LocalAI and others."""

import asyncio
import mmap
import os
from collections.abc import Callable, Collection
from contextlib import aclosing
from dataclasses import KW_ONLY, dataclass, field
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import Annotated, Final
from urllib.parse import quote

import msgspec
from msgspec import Meta, Struct

from myna.engines.audio.mp3 import duration_s, info_frames
from myna.engines.interface import (
    NO_CLIENT,
    CallerDisconnected,
    Client,
    EngineBusy,
    EngineFailed,
    EngineLimits,
    EngineTimedOut,
    EngineUnavailable,
    EngineVoice,
    NothingSpoken,
    SoundPart,
    SoundParts,
    SoundTooLong,
    SpeechResult,
    UnsupportedUtterance,
    Utterance,
)
from myna.engines.openai.api import (
    CLASSIC,
    SpeechBody,
    cut,
    failure,
    is_mp3,
    read_voices,
    refusal,
    request_headers,
)
from myna.engines.output_file import store_s
from myna.engines.voices import VoiceIds, check_unique
from myna.errors import ConfigError
from myna.http.client import HttpClient, RequestFailed
from myna.http.client.flow import Flow
from myna.lib.aio import cancel_and_wait
from myna.lib.files import AtomicFile, DiskExecutor
from myna.lib.net import is_base_url, without_login
from myna.lib.sandbox import AllowedPaths
from myna.wire.farm import AUDIO_MAX_BYTES

VOICES_WAIT_S: Final = 10.0
VOICES_MAX_BYTES: Final = 1_048_576
_HEAD_BYTES: Final = 2048
_HEAD_MAX_BYTES: Final = 65_536
"""From the first size on an mp3 is searched for its first sound: a third of a second at 48 kbit/s, and more
than a delivery holds back, so that a part of it is sent. An mp3 without sound up to the second size is sent
when it is complete."""
_WAITING_MAX: Final = 16
"""Reads of at most 16 KiB that wait for the client's `relay`; then the server waits."""

# Statuses of servers without a list of voices, such as LocalAI.
_NO_VOICE_LIST: Final = (HTTPStatus.NOT_FOUND, HTTPStatus.METHOD_NOT_ALLOWED, HTTPStatus.NOT_IMPLEMENTED)


@dataclass(eq=False, repr=False)  # `repr` would have the key
class OpenAISpeech:
    """Speaks through the server at `url`, a base such as http://host:8880/v1, in all of its voices or in
    those of `only`.

    A response of another type than mp3 is a failure. The audio of an utterance is at most `answer_max_bytes`,
    in however many requests. It can speak without `start`, which looks up the voices. `close` closes the HTTP
    client; who shares one among engines closes that instead.
    """

    clones = ()
    blends = False
    admission = None

    http_client: HttpClient
    disk: DiskExecutor
    _: KW_ONLY
    url: str
    key: str
    headers: Callable[[str], dict[str, str]]
    model: str
    answer_max_bytes: int
    only: Collection[str] | None = None
    voices: tuple[EngineVoice, ...] = field(default=(), init=False)

    @property
    def label(self) -> str:
        return f"openai {without_login(self.url)}"

    def up(self) -> bool:
        return True

    def full(self) -> bool:
        return False

    async def start(self, files: AllowedPaths | None = None) -> None:
        """Looks up the server's voices, at most 500; OpenAI's six original voices if it has no list.

        Raises EngineFailed if the request fails, if the response is not a list of voices, or if that lacks
        one of `only`.
        """
        voices = await self._list_voices()
        if self.only is not None:
            by_id = {voice.voice_id: voice for voice in voices}
            if missing := [voice_id for voice_id in self.only if voice_id not in by_id]:
                raise EngineUnavailable(f"The speech server has no voice {missing[0]!r}.")
            voices = tuple(by_id[voice_id] for voice_id in self.only)
        self.voices = voices

    async def close(self) -> None:
        await self.http_client.close()

    async def _list_voices(self) -> tuple[EngineVoice, ...]:
        try:
            answer = await self.http_client.request(
                "GET",
                f"{self._address('voices')}?model={quote(self.model, safe='')}",
                headers=self.headers("application/json"),
                body=None,
                deadline_s=VOICES_WAIT_S,
                answer_max_bytes=VOICES_MAX_BYTES,
            )
        except RequestFailed as error:
            raise failure(error) from error
        if answer.status in _NO_VOICE_LIST:
            return CLASSIC
        if answer.status != HTTPStatus.OK:
            raise refusal(answer, self.url, self.key)
        try:
            return read_voices(answer.body)
        except ValueError as error:
            raise EngineFailed("The speech server's list of voices can't be read.") from error

    async def speak(
        self, utterance: Utterance, path: Path, deadline_s: float, client: Client = NO_CLIENT
    ) -> SpeechResult:
        """A text over 4096 characters is spoken in several requests, whose mp3s are joined. A client with
        `relay` gets an mp3 as it arrives, from its first sound on. A removal that takes over a
        second continues in the background."""
        if utterance.reference is not None:
            raise UnsupportedUtterance("This engine clones no voice.")
        texts = cut(utterance.flat)
        if not texts:
            raise NothingSpoken("There is nothing to speak in the text.")
        if self.disk.full():
            raise EngineBusy("Too many files wait for the disk.")
        try:
            file = AtomicFile(path)
            try:
                return await self._download(file, texts, utterance, deadline_s, client)
            except BaseException:
                await self.disk.clean_up(file.undo)
                raise
        except OSError as error:
            reason = error.strerror or type(error).__name__
            raise EngineFailed(f"The audio can't be written: {reason}.") from error

    async def _download(
        self, file: AtomicFile, texts: list[str], utterance: Utterance, deadline_s: float, client: Client
    ) -> SpeechResult:
        ends_at = asyncio.get_running_loop().time() + deadline_s
        timeout_message = disk_message = "The disk took too long to store the audio."
        try:
            async with asyncio.timeout(deadline_s):
                await self.disk.run_metadata(file.begin)
                timeout_message = "The speech server took too long."
                if client.relay is None:
                    await self._request(texts, utterance, ends_at, file.write)
                else:
                    mp3 = self._mp3(file, texts, utterance, ends_at - store_s(deadline_s), client)
                    async with aclosing(client.relay(mp3)) as parts:
                        async for _ in parts:
                            pass  # it is in the file
                timeout_message = disk_message
                return await self.disk.run(partial(_finish, file, utterance.sound_max_s))
        except TimeoutError as error:
            raise EngineTimedOut(timeout_message) from error

    async def _mp3(
        self, file: AtomicFile, texts: list[str], utterance: Utterance, ends_at: float, client: Client
    ) -> SoundParts:
        """Writes the mp3 to the file, and yields it as it arrives. The first part has sound; there is no
        part if the first _HEAD_MAX_BYTES have none."""
        arrived: asyncio.Queue[bytes | None] = asyncio.Queue()  # empty: the end; None: the client has left
        flow = Flow()

        def receive(data: bytes) -> None:
            file.write(data)
            arrived.put_nowait(data)
            if arrived.qsize() >= _WAITING_MAX:
                flow.pause()

        request = asyncio.ensure_future(self._request(texts, utterance, ends_at, receive, flow))
        request.add_done_callback(lambda _: arrived.put_nowait(b""))
        leaving = asyncio.ensure_future(client.disconnected()) if client.disconnected else None
        if leaving:
            leaving.add_done_callback(lambda _: arrived.put_nowait(None))
        try:
            head, check_at, sounds = b"", _HEAD_BYTES, False
            while (data := await arrived.get()) != b"":
                flow.resume()
                if data is None:
                    if not sounds:
                        raise CallerDisconnected("The client disconnected before the server sent sound.")
                elif sounds:
                    yield SoundPart(b"", 0.0, mp3=data)
                elif len(head) < _HEAD_MAX_BYTES:
                    head += data
                    if len(head) >= check_at:
                        check_at = 2 * len(head)
                        sounds = await self.disk.run(partial(duration_s, head)) > 0
                        if sounds:
                            yield SoundPart(b"", 0.0, mp3=head)
            await request
        finally:
            if leaving:
                leaving.cancel()
            await cancel_and_wait(request)

    async def _request(
        self,
        texts: list[str],
        utterance: Utterance,
        ends_at: float,
        sink: Callable[[bytes], None],
        flow: Flow | None = None,
    ) -> None:
        """Makes a request for each text. Their mp3s go to the sink."""
        received = 0

        def receive(data: bytes) -> None:
            nonlocal received
            received += len(data)
            sink(data)

        for text in texts:
            before = received
            body = SpeechBody(self.model, text, utterance.voice_id, utterance.speed)
            try:
                answer = await self.http_client.request(
                    "POST",
                    self._address("speech"),
                    headers=self.headers("audio/mpeg"),
                    body=msgspec.json.encode(body),
                    deadline_s=ends_at - asyncio.get_running_loop().time(),
                    answer_max_bytes=self.answer_max_bytes - before,
                    sink=receive,
                    accept=is_mp3,
                    flow=flow,
                )
            except RequestFailed as error:
                raise failure(error) from error
            if not is_mp3(answer.status, answer.headers):
                raise refusal(answer, self.url, self.key)
            if received == before:
                raise NothingSpoken("The speech server's audio is empty.")

    def _address(self, resource: str) -> str:
        return f"{self.url.rstrip('/')}/audio/{resource}"


def _finish(output: AtomicFile, sound_max_s: float) -> SpeechResult:
    """Measures the sound and makes the file durable. Blocking. Raises EngineFailed, SoundTooLong, and
    NothingSpoken for an mp3 without sound."""
    output.flush()
    with output.part.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        seconds, silent = duration_s(data), bool(info_frames(data))
    if not seconds and silent:
        raise NothingSpoken("The speech server's audio has no sound in it.")
    if not seconds:
        raise EngineFailed("The speech server's audio isn't the mp3 it says it is.")
    if seconds > sound_max_s:
        raise SoundTooLong("The speech server's audio is longer than one text's may be.")
    size_bytes, sha256 = output.commit()
    return SpeechResult(seconds, size_bytes, sha256)


class OpenAIConfig(Struct, frozen=True, forbid_unknown_fields=True, tag_field="kind", tag="openai"):
    """A server with all of its voices, or with these. `key_env` names the variable that has its key."""

    url: str
    model: Annotated[str, Meta(min_length=1)] = "tts-1"
    key_env: str = ""
    voices: VoiceIds | None = None

    def build(self, limits: EngineLimits, folder: Path) -> OpenAISpeech:
        check_unique("voices", self.voices or ())
        if not is_base_url(self.url):
            raise ConfigError("url: must be http://… or https://… without a query.")
        key = os.environ.get(self.key_env, "").strip()
        if self.key_env and not key:
            raise ConfigError(f"key_env: {self.key_env} is not set, or empty.")
        return OpenAISpeech(
            HttpClient(connections_max=limits.processes),
            DiskExecutor(limits.processes),
            url=self.url,
            key=key,
            headers=partial(request_headers, key),
            model=self.model,
            answer_max_bytes=AUDIO_MAX_BYTES,
            only=self.voices,
        )

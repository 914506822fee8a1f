"""Speech by servers with OpenAI's POST /audio/speech: OpenAI, Kokoro-FastAPI, LocalAI and others."""

import asyncio
import logging
import mmap
import re
from collections.abc import Callable, Collection, Mapping
from contextlib import aclosing
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import Final
from urllib.parse import quote, unquote, urlsplit

import msgspec

from myna.engines.audio.mpeg import duration_s, info_frames
from myna.engines.interface import (
    NO_CLIENT,
    CallerDisconnected,
    Client,
    EngineBusy,
    EngineFailed,
    EngineTimedOut,
    EngineUnavailable,
    EngineVoice,
    NoConnection,
    NothingSpoken,
    ServerBusy,
    SoundPart,
    SoundParts,
    SoundTooLong,
    SpeechResult,
    UnsupportedUtterance,
    Utterance,
    UtteranceRefused,
)
from myna.engines.openai.text import cut
from myna.engines.openai.voices import CLASSIC, read_voices
from myna.engines.output_file import store_s
from myna.http.client import (
    AnswerTooLarge,
    ClientResponse,
    HttpClient,
    OutOfFiles,
    RequestFailed,
    TimedOut,
    Unreachable,
)
from myna.http.client.flow import Flow
from myna.lib.files import AtomicFile, DiskExecutor
from myna.lib.net import without_login
from myna.lib.sandbox import AllowedPaths
from myna.wire.failures import BUSY, NO_QUOTA, SLOW, read, retry_after_s

VOICES_WAIT_S: Final = 10.0
VOICES_MAX_BYTES: Final = 1_048_576
LOGGED_MAX_CHARS: Final = 500
_HEAD_BYTES: Final = 2048
_HEAD_MAX_BYTES: Final = 65_536
"""From the first size on an mp3 is searched for its first sound: a third of a second at 48 kbit/s, and more
than a delivery holds back, so that a part of it is sent. An mp3 without sound up to the second size is sent
when it is complete."""
_WAITING_MAX: Final = 16
"""Reads of at most 16 KiB that wait for a listener; then the server waits."""

# Statuses of servers without a list of voices, such as LocalAI.
_NO_VOICE_LIST: Final = (HTTPStatus.NOT_FOUND, HTTPStatus.METHOD_NOT_ALLOWED, HTTPStatus.NOT_IMPLEMENTED)
_SPEECH: Final = {"Content-Type": "application/json", "Accept": "audio/mpeg"}
_MP3: Final = ("audio/mpeg", "audio/mp3")
_MEDIA_TYPE: Final = re.compile(r"[a-z0-9.+-]{1,40}/[a-z0-9.+-]{1,40}")

log = logging.getLogger(__name__)


class _SpeechBody(msgspec.Struct, frozen=True):
    """The body of POST /audio/speech."""

    model: str
    input: str
    voice: str
    response_format: str
    speed: float


class OpenAISpeech:
    """Speaks through the server at `url`, a base such as http://host:8880/v1, in all of its voices or in
    those of `only`.

    A response of another type than mp3 is a failure. The audio of an utterance is at most `answer_max_bytes`,
    in however many requests. It can speak without `start`, which looks up the voices. `close` closes the HTTP
    client; who shares one among engines closes that instead.
    """

    clones: tuple[str, ...] = ()
    blends = False
    admission = None

    def __init__(
        self,
        http_client: HttpClient,
        disk: DiskExecutor,
        *,
        url: str,
        key: str | None,
        model: str,
        answer_max_bytes: int,
        only: Collection[str] | None = None,
    ) -> None:
        self.label = f"openai {without_login(url)}"
        self.voices: tuple[EngineVoice, ...] = ()
        self._http_client = http_client
        self._disk = disk
        self._url = url.rstrip("/")
        self._key = key
        self._model = model
        self._answer_max_bytes = answer_max_bytes
        self._only = only
        self._headers = {"Authorization": f"Bearer {key}"} if key else {}

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
        if self._only is not None:
            by_id = {voice.voice_id: voice for voice in voices}
            if missing := [voice_id for voice_id in self._only if voice_id not in by_id]:
                raise EngineUnavailable(f"The speech server has no voice {missing[0]!r}.")
            voices = tuple(by_id[voice_id] for voice_id in self._only)
        self.voices = voices

    async def close(self) -> None:
        await self._http_client.close()

    async def _list_voices(self) -> tuple[EngineVoice, ...]:
        url = f"{self._url}/audio/voices?model={quote(self._model, safe='')}"
        try:
            answer = await self._http_client.request(
                "GET",
                url,
                headers={**self._headers, "Accept": "application/json"},
                body=None,
                deadline_s=VOICES_WAIT_S,
                answer_max_bytes=VOICES_MAX_BYTES,
            )
        except RequestFailed as error:
            raise _failure(error) from error
        if answer.status in _NO_VOICE_LIST:
            return CLASSIC
        if answer.status != HTTPStatus.OK:
            raise self._refusal(answer)
        try:
            return read_voices(answer.body)
        except ValueError as error:
            raise EngineFailed("The speech server's list of voices can't be read.") from error

    async def speak(
        self, utterance: Utterance, path: Path, deadline_s: float, client: Client = NO_CLIENT
    ) -> SpeechResult:
        """A text over 4096 characters is spoken in several requests, whose mp3s are joined. A client hears an
        mp3 as it arrives, from its first sound on. A removal that takes over a second continues in the
        background."""
        if utterance.reference is not None:
            raise UnsupportedUtterance("This engine clones no voice.")
        texts = cut(utterance.flat)
        if not texts:
            raise NothingSpoken("There is nothing to speak in the text.")
        if self._disk.full():
            raise EngineBusy("Too many files wait for the disk.")
        try:
            file = AtomicFile(path)
            try:
                return await self._download(file, texts, utterance, deadline_s, client)
            except BaseException:
                await self._disk.clean_up(file.undo)
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
                await self._disk.run_metadata(file.begin)
                timeout_message = "The speech server took too long."
                if client.hear is None:
                    await self._request(texts, utterance, ends_at, file.write)
                else:
                    mp3 = self._mp3(file, texts, utterance, ends_at - store_s(deadline_s), client)
                    async with aclosing(client.hear(mp3)) as parts:
                        async for _ in parts:
                            pass  # it is in the file
                timeout_message = disk_message
                return await self._disk.run(partial(_finish, file, utterance.sound_max_s))
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
                        sounds = await self._disk.run(partial(duration_s, head)) > 0
                        if sounds:
                            yield SoundPart(b"", 0.0, mp3=head)
            await request
        finally:
            if leaving:
                leaving.cancel()
            request.cancel()
            await asyncio.gather(request, return_exceptions=True)

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
            left_s = ends_at - asyncio.get_running_loop().time()
            await self._request_one(text, utterance, left_s, self._answer_max_bytes - before, receive, flow)
            if received == before:
                raise NothingSpoken("The speech server's audio is empty.")

    async def _request_one(
        self,
        text: str,
        utterance: Utterance,
        deadline_s: float,
        max_bytes: int,
        sink: Callable[[bytes], None],
        flow: Flow | None,
    ) -> None:
        request = _SpeechBody(
            model=self._model,
            input=text,
            voice=utterance.voice_id,
            response_format="mp3",
            speed=utterance.speed,
        )
        try:
            answer = await self._http_client.request(
                "POST",
                f"{self._url}/audio/speech",
                headers=self._headers | _SPEECH,
                body=msgspec.json.encode(request),
                deadline_s=deadline_s,
                answer_max_bytes=max_bytes,
                sink=sink,
                accept=_is_mp3,
                flow=flow,
            )
        except RequestFailed as error:
            raise _failure(error) from error
        if not _is_mp3(answer.status, answer.headers):
            raise self._refusal(answer)

    def _refusal(self, answer: ClientResponse) -> EngineFailed:
        """The error for a response without audio. Its body is logged and not shown to the client."""
        body = answer.body[: 4 * LOGGED_MAX_CHARS].decode(errors="replace")
        if self._key:
            body = body.replace(self._key, "***")
        if password := urlsplit(self._url).password:
            body = body.replace(password, "***").replace(unquote(password), "***")
        log.warning("a speech server answered %d: %.*r", answer.status, LOGGED_MAX_CHARS, body)
        if answer.status == HTTPStatus.OK:
            return EngineFailed(
                f"The speech server was asked for mp3 and sent {_media_type(answer.headers)}."
            )
        meaning = read(answer.status, answer.body).meaning(model_is_callers=False)
        why = f"The speech server answered {answer.status}."
        if meaning in (BUSY, NO_QUOTA):
            return ServerBusy(why, retry_after_s(answer.headers))
        if meaning is SLOW:
            return EngineTimedOut(why)
        return EngineFailed(why) if meaning.counts else UtteranceRefused(why)


def _media_type(headers: Mapping[str, str]) -> str:
    """The content type without parameters; "something else" if it is not plain, since it goes into a
    message."""
    media_type = headers.get("content-type", "").partition(";")[0].strip().lower()
    return media_type if _MEDIA_TYPE.fullmatch(media_type) else "something else"


def _is_mp3(status: int, headers: Mapping[str, str]) -> bool:
    return status == HTTPStatus.OK and _media_type(headers) in _MP3


def _failure(error: RequestFailed) -> EngineFailed:
    if isinstance(error, TimedOut):
        return EngineTimedOut("The speech server took too long.")
    if isinstance(error, OutOfFiles):
        return NoConnection("This process has no file for a connection to the speech server.")
    if isinstance(error, Unreachable):
        return EngineUnavailable("The speech server can't be reached.")
    if isinstance(error, AnswerTooLarge):
        return EngineFailed("The speech server sent more than is taken.")
    return EngineFailed("The connection to the speech server broke.")


def _finish(output: AtomicFile, sound_max_s: float) -> SpeechResult:
    """Measures the sound and makes the file durable. Blocking. Raises EngineFailed, SoundTooLong, and
    NothingSpoken for an mp3 without sound."""
    output.flush()
    with (
        output.part.open("rb") as file,
        mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data,
    ):
        seconds, silent = duration_s(data), bool(info_frames(data))
    if not seconds and silent:
        raise NothingSpoken("The speech server's audio has no sound in it.")
    if not seconds:
        raise EngineFailed("The speech server's audio isn't the mp3 it says it is.")
    if seconds > sound_max_s:
        raise SoundTooLong("The speech server's audio is longer than one text's may be.")
    size_bytes, sha256 = output.commit()
    return SpeechResult(seconds, size_bytes, sha256)

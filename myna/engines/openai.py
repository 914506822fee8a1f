"""Speech by any server with OpenAI's POST /audio/speech: OpenAI, Kokoro-FastAPI, LocalAI and many more."""

import asyncio
import logging
import mmap
import re
from collections.abc import Hashable, Mapping
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import Final
from urllib.parse import quote, unquote, urlsplit

import msgspec

from myna.disk_threads import Disk
from myna.engines.openai_text import cut
from myna.engines.openai_voices import CLASSIC, read_voices
from myna.engines.spoken import (
    EngineBusy,
    EngineDown,
    EngineFailed,
    EngineTimedOut,
    NothingSpoken,
    Spoken,
    Utterance,
    UtteranceRefused,
    Voice,
)
from myna.outbound import Answer, AnswerTooLarge, Outbound, OutboundFailed, TimedOut, Unreachable
from myna.sound.landing import Landing
from myna.sound.mpeg import duration_s

VOICES_MAX_BYTES: Final = 1_048_576
LOGGED_MAX_CHARS: Final = 500

# A server that doesn't know the path; LocalAI and others answer with one of these.
_NO_SUCH_LIST: Final = (HTTPStatus.NOT_FOUND, HTTPStatus.METHOD_NOT_ALLOWED, HTTPStatus.NOT_IMPLEMENTED)
_KINDS: Final[dict[int, type[EngineFailed]]] = {
    HTTPStatus.TOO_MANY_REQUESTS: EngineBusy,
    HTTPStatus.BAD_REQUEST: UtteranceRefused,
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE: UtteranceRefused,
    HTTPStatus.UNPROCESSABLE_ENTITY: UtteranceRefused,
}
_MP3: Final = ("audio/mpeg", "audio/mp3")
_MEDIA_TYPE: Final = re.compile(r"[a-z0-9.+-]{1,40}/[a-z0-9.+-]{1,40}")

log = logging.getLogger(__name__)


class _Order(msgspec.Struct, frozen=True):
    """The body of POST /audio/speech."""

    model: str
    input: str
    voice: str
    response_format: str
    speed: float


class OpenAISpeech:
    """Speaks through the server at `url`, a base such as http://host:8880/v1.

    Only mp3 is taken: an answer of another type, audio or not, is a failure, for the file's name says mp3. An
    utterance's audio is at most `answer_max_bytes`, however many calls it takes. Keeps nothing between calls.
    """

    suffix: Final = ".mp3"

    def __init__(
        self,
        outbound: Outbound,
        disk: Disk,
        *,
        url: str,
        key: str | None,
        model: str,
        answer_max_bytes: int,
    ) -> None:
        self._outbound, self._disk = outbound, disk
        self._url = url.rstrip("/")
        self._key = key
        self._model = model
        self._answer_max_bytes = answer_max_bytes
        self._headers = {"Authorization": f"Bearer {key}"} if key else {}

    async def voices(self, deadline_s: float) -> tuple[Voice, ...]:
        """What the server lists, at most 500; OpenAI's six classic voices where it has no list to give.

        Raises EngineFailed where it can't be asked or answers with no list.
        """
        url = f"{self._url}/audio/voices?model={quote(self._model, safe='')}"
        try:
            answer = await self._outbound.request(
                "GET",
                url,
                headers={**self._headers, "Accept": "application/json"},
                body=None,
                deadline_s=deadline_s,
                answer_max_bytes=VOICES_MAX_BYTES,
            )
        except OutboundFailed as fault:
            raise _failure(fault) from fault
        if answer.status in _NO_SUCH_LIST:
            return CLASSIC
        if answer.status != HTTPStatus.OK:
            raise self._refusal(answer)
        try:
            return read_voices(answer.body)
        except ValueError as fault:
            raise EngineFailed("The speech server's list of voices can't be read.") from fault

    async def speak(
        self, utterance: Utterance, path: Path, deadline_s: float, *, turn: Hashable = None
    ) -> Spoken:
        """The utterance as an mp3 at `path`, on disk for good, within `deadline_s` seconds in all.

        A text over 4096 characters is spoken in several calls, whose mp3s are joined. `path` must be this
        call's own, and not be used again. However the call ends but well, also by cancelling, nothing is left
        there but what the disk doesn't let be removed; what it takes over a second for goes later. Raises an
        error of `spoken.py`.
        """
        texts = cut(utterance.text.encode(errors="ignore").decode())  # a lone surrogate can't be sent
        if not texts:
            raise NothingSpoken("There is nothing to speak in the text.")
        if self._disk.full():
            raise EngineBusy("The disk has as many files waiting as it takes.")
        try:
            landing = Landing(path)
            try:
                return await self._record(landing, texts, utterance, deadline_s)
            except BaseException:
                await self._disk.cleared(landing.undo)
                raise
        except OSError as fault:
            raise EngineFailed(
                f"The audio can't be written: {fault.strerror or type(fault).__name__}."
            ) from fault

    async def _record(
        self, landing: Landing, texts: list[str], utterance: Utterance, deadline_s: float
    ) -> Spoken:
        late = disk_late = "The disk took too long to take the audio."
        try:
            async with asyncio.timeout(deadline_s):
                await self._disk.named(landing.begin)
                late = "The speech server took too long."
                for text in texts:
                    await self._pour(landing, text, utterance, deadline_s)
                late = disk_late
                return await self._disk.done(partial(_land, landing))
        except TimeoutError as fault:
            raise EngineTimedOut(late) from fault

    async def _pour(self, landing: Landing, text: str, utterance: Utterance, deadline_s: float) -> None:
        """One call, its mp3 appended to the landing."""
        order = _Order(self._model, text, utterance.voice_id, "mp3", utterance.speed)
        before = landing.size_bytes
        try:
            answer = await self._outbound.download(
                "POST",
                f"{self._url}/audio/speech",
                headers={**self._headers, "Content-Type": "application/json", "Accept": "audio/mpeg"},
                body=msgspec.json.encode(order),
                deadline_s=deadline_s,
                answer_max_bytes=self._answer_max_bytes - before,
                sink=landing.write,
                accept=_is_mp3,
            )
        except OutboundFailed as fault:
            raise _failure(fault) from fault
        if not _is_mp3(answer.status, answer.headers):
            raise self._refusal(answer)
        if landing.size_bytes == before:
            raise EngineFailed("The speech server's audio is empty.")

    def _refusal(self, answer: Answer) -> EngineFailed:
        """What to raise for an answer without audio. What it says is logged, not passed on."""
        said = answer.body[: 4 * LOGGED_MAX_CHARS].decode(errors="replace")
        if self._key:
            said = said.replace(self._key, "***")
        if password := urlsplit(self._url).password:
            said = said.replace(password, "***").replace(unquote(password), "***")
        log.warning("a speech server answered %d: %.*r", answer.status, LOGGED_MAX_CHARS, said)
        if answer.status == HTTPStatus.OK:
            return EngineFailed(
                f"The speech server was asked for mp3 and sent {_media_type(answer.headers)}."
            )
        return _KINDS.get(answer.status, EngineFailed)(f"The speech server answered {answer.status}.")


def _media_type(headers: Mapping[str, str]) -> str:
    """The content type without its parameters; nothing a stranger could smuggle into a message."""
    media_type = headers.get("content-type", "").partition(";")[0].strip().lower()
    return media_type if _MEDIA_TYPE.fullmatch(media_type) else "something else"


def _is_mp3(status: int, headers: Mapping[str, str]) -> bool:
    return status == HTTPStatus.OK and _media_type(headers) in _MP3


def _failure(fault: OutboundFailed) -> EngineFailed:
    if isinstance(fault, TimedOut):
        return EngineTimedOut("The speech server took too long.")
    if isinstance(fault, Unreachable):
        return EngineDown("The speech server can't be reached.")
    if isinstance(fault, AnswerTooLarge):
        return EngineFailed("The speech server sent more than is taken.")
    return EngineFailed("The connection to the speech server broke.")


def _land(landing: Landing) -> Spoken:
    """Measures the sound and makes the file durable. Blocks."""
    landing.flush()
    with (
        landing.part.open("rb") as file,
        mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data,
    ):
        seconds = duration_s(data)
    if not seconds:
        raise EngineFailed("The speech server's audio isn't the mp3 it says it is.")
    size_bytes, sha256 = landing.commit()
    return Spoken(seconds, size_bytes, sha256)

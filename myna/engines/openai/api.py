"""OpenAI's API of speech as servers speak it: texts of one request, lists of voices, and failures."""

import logging
import re
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import unquote, urlsplit

import msgspec

from myna.engines.interface import (
    EngineFailed,
    EngineTimedOut,
    EngineUnavailable,
    EngineVoice,
    NoConnection,
    ServerBusy,
    ServerUnusable,
    UtteranceRefused,
)
from myna.engines.text.sentences import sentences
from myna.http.client import AnswerTooLarge, ClientResponse, OutOfFiles, RequestFailed, TimedOut, Unreachable
from myna.wire.failures import BUSY, NO_ACCESS, NO_QUOTA, SLOW, read, retry_after_s, sanitized

LOGGED_MAX_CHARS: Final = 500
_MP3: Final = ("audio/mpeg", "audio/mp3")
_MEDIA_TYPE: Final = re.compile(r"[a-z0-9.+-]{1,40}/[a-z0-9.+-]{1,40}")
# "The maximum length is 4096 characters": OpenAI's reference of POST /audio/speech, on `input`.
INPUT_MAX_CHARS: Final = 4096

VOICES_MAX: Final = 500
ID_MAX_CHARS: Final = 100
UNKNOWN_LANGUAGE: Final = "und"  # BCP 47 for "undetermined"

# Every speech model of OpenAI has these. Some of its models, and most compatible servers, refuse the newer
# ones (ash, coral, sage, marin, …).
CLASSIC: Final = tuple(
    EngineVoice(voice_id=name, name=name.capitalize(), gender="neutral", language=UNKNOWN_LANGUAGE)
    for name in ("alloy", "echo", "fable", "nova", "onyx", "shimmer")
)

# Kokoro's ids begin with a letter for the language and one for the gender: af_bella, zm_yunxi.
_KOKORO: Final = re.compile(r"([abefhijpz])([fm])_")
_KOKORO_LANGUAGES: Final = {
    "a": "en-US",
    "b": "en-GB",
    "e": "es",
    "f": "fr-FR",
    "h": "hi",
    "i": "it",
    "j": "ja",
    "p": "pt-BR",
    "z": "zh-CN",
}
_GENDERS: Final = {
    "f": "female",
    "female": "female",
    "woman": "female",
    "女": "female",
    "m": "male",
    "male": "male",
    "man": "male",
    "男": "male",
}
_LANGUAGE: Final = re.compile(r"([A-Za-z]{2,3})((?:[-_][A-Za-z0-9]{2,8})*)")

log = logging.getLogger(__name__)


def request_headers(key: str, accept: str) -> dict[str, str]:
    """The headers of a request in JSON to a server, which has this key, or none if it is empty, for an answer
    of the type `accept`."""
    headers = {"content-type": "application/json", "accept": accept}
    return headers | {"authorization": f"Bearer {key}"} if key else headers


class SpeechBody(msgspec.Struct, frozen=True):
    """The body of POST /audio/speech."""

    model: str
    input: str
    voice: str
    speed: float
    response_format: str = "mp3"


def is_mp3(status: int, headers: Mapping[str, str]) -> bool:
    """Whether a response has the audio."""
    return status == HTTPStatus.OK and _media_type(headers) in _MP3


def failure(error: RequestFailed) -> EngineFailed:
    """The error for a request without a response."""
    if isinstance(error, TimedOut):
        return EngineTimedOut("The speech server took too long.")
    if isinstance(error, OutOfFiles):
        return NoConnection("This process has no file for a connection to the speech server.")
    if isinstance(error, Unreachable):
        return EngineUnavailable("The speech server can't be reached.")
    if isinstance(error, AnswerTooLarge):
        return EngineFailed("The speech server sent more than is taken.")
    return EngineFailed("The connection to the speech server broke.")


def refusal(answer: ClientResponse, url: str, key: str) -> EngineFailed:
    """The error for a response without audio. Its body is logged, without the key and the password of the
    URL. The client is shown why its text was refused, as by a chat channel."""
    body = answer.body[: 4 * LOGGED_MAX_CHARS].decode(errors="replace")
    password = urlsplit(url).password
    for secret in filter(None, (key, password, unquote(password or ""))):
        body = body.replace(secret, "***")
    log.warning("a speech server answered %d: %.*r", answer.status, LOGGED_MAX_CHARS, body)
    error = read(answer.status, answer.body)
    meaning = error.meaning(model_is_callers=False)
    why = f"The speech server answered {answer.status}."
    if answer.status == HTTPStatus.OK:
        why = f"The speech server was asked for mp3 and sent {_media_type(answer.headers)}."
    if meaning in (NO_ACCESS, NO_QUOTA):
        return ServerUnusable(why, meaning)
    if meaning is BUSY:
        return ServerBusy(why, retry_after_s(answer.headers))
    if meaning is SLOW:
        return EngineTimedOut(why)
    return EngineFailed(why) if meaning.counts else UtteranceRefused(why, sanitized(error, url, key))


def _media_type(headers: Mapping[str, str]) -> str:
    """The content type without parameters; "something else" if it is not plain, since it goes into a
    message."""
    media_type = headers.get("content-type", "").partition(";")[0].strip().lower()
    return media_type if _MEDIA_TYPE.fullmatch(media_type) else "something else"


def cut(text: str, max_chars: int = INPUT_MAX_CHARS) -> list[str]:
    """The text in pieces of at most `max_chars` characters, without blank pieces: as many sentences as fit,
    or a part of a longer one."""
    pieces = [""]
    for sentence in sentences(text, max_chars):
        if len(pieces[-1]) + len(sentence) > max_chars:
            pieces.append("")
        pieces[-1] += sentence
    return [piece for piece in pieces if piece.strip()]


def read_voices(body: bytes) -> tuple[EngineVoice, ...]:
    """The voices in a response to GET /audio/voices. Raises ValueError if it has no list of voices.

    Formats in use: a list, bare or under `voices` or `data`, of ids or of objects with an id and optional
    name, gender and language; or an object of objects, by id. Entries without a usable id, duplicates, and
    entries after the first 500 are ignored.
    """
    found: dict[str, EngineVoice] = {}
    for item in _items(_decoded(body)):
        voice = _voice(item)
        if voice is not None:
            found.setdefault(voice.voice_id, voice)
        if len(found) == VOICES_MAX:
            break
    return tuple(found.values())


def _decoded(body: bytes) -> Any:
    try:
        return msgspec.json.decode(body)
    except RecursionError:
        raise ValueError("nested too deep") from None


def _items(answer: Any) -> list[Any]:
    if isinstance(answer, dict):
        answer = answer.get("voices", answer.get("data"))
    if isinstance(answer, dict):
        return [{**entry, "id": key} if isinstance(entry, dict) else key for key, entry in answer.items()]
    if not isinstance(answer, list):
        raise ValueError("no list of voices")
    return answer


def _voice(item: Any) -> EngineVoice | None:
    entry = item if isinstance(item, dict) else {"id": item}
    voice_id = _first(entry, "id", "voice_id", "voice", "name")
    if not _usable(voice_id):
        return None
    name = _first(entry, "display_name", "name", "label")
    kokoro = _KOKORO.match(voice_id)
    gender = _GENDERS.get(_first(entry, "gender", "sex").lower())
    language = _tag(_first(entry, "language", "lang", "locale", "language_code"))
    return EngineVoice(
        voice_id=voice_id,
        name=name if _usable(name) else voice_id,
        gender=gender or (_GENDERS[kokoro[2]] if kokoro else "neutral"),
        language=language or (_KOKORO_LANGUAGES[kokoro[1]] if kokoro else UNKNOWN_LANGUAGE),
    )


def _first(entry: dict[str, Any], *names: str) -> str:
    """The first of these fields that is a non-blank string; else empty."""
    values = (entry.get(name) for name in names)
    return next((value.strip() for value in values if isinstance(value, str) and value.strip()), "")


def _usable(text: str) -> bool:
    """Whether it is short and printable: letters and digits of any script, and printable ASCII."""
    return 0 < len(text) <= ID_MAX_CHARS and all(char.isalnum() or " " <= char <= "~" for char in text)


def _tag(text: str) -> str:
    """A language code in BCP 47 form (zh_cn becomes zh-CN); empty for anything else, such as "English"."""
    match = _LANGUAGE.fullmatch(text)
    if match is None:
        return ""
    parts = match[2].replace("_", "-").split("-")[1:]
    return "-".join([match[1].lower(), *(_subtag(part) for part in parts)])


def _subtag(part: str) -> str:
    if len(part) == 2:
        return part.upper()
    return part.title() if len(part) == 4 and part.isalpha() else part.lower()

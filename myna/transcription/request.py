"""The request: a recording, and the fields of its form."""

import re
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Final

from msgspec import Struct

from myna.errors import InvalidRequest
from myna.http.responses import JSON

PROMPT_MAX_CHARS: Final = 2000
GRANULARITIES: Final = ("segment", "word")
GRANULARITY_FIELD: Final = "timestamp_granularities[]"
_LANGUAGE: Final = re.compile(r"[a-z]{2,3}")
_NUMBER: Final = re.compile(r"[0-9]{1,3}(\.[0-9]{1,12})?")
_FALSE: Final = ("", "false", "0")


class TranscriptFormat(StrEnum):
    """The values of `response_format`."""

    JSON = "json"
    TEXT = "text"
    SRT = "srt"
    VTT = "vtt"
    VERBOSE_JSON = "verbose_json"

    @property
    def media_type(self) -> bytes:
        return _MEDIA_TYPES[self]


_MEDIA_TYPES: Final = {
    TranscriptFormat.JSON: JSON,
    TranscriptFormat.TEXT: b"text/plain; charset=utf-8",
    TranscriptFormat.SRT: b"application/x-subrip; charset=utf-8",
    TranscriptFormat.VTT: b"text/vtt; charset=utf-8",
    TranscriptFormat.VERBOSE_JSON: JSON,
}


class Upload(Struct, frozen=True):
    """A recording in a temporary file, and its name and type as the client gave them."""

    path: Path
    name: str
    media_type: str
    size_bytes: int


class TranscriptionRequest(Struct, frozen=True):
    """What is asked for. `fields` are those of the form, for a channel. `language` is a code like zh; without
    one it is detected. `temperature` is 0 to 1."""

    upload: Upload
    translate: bool
    model: str
    fields: Sequence[tuple[str, str]]
    format: TranscriptFormat
    language: str | None
    prompt: str
    temperature: float
    words: bool


def read(
    fields: Sequence[tuple[str, str]], upload: Upload | None, *, translate: bool
) -> TranscriptionRequest:
    """The request of a form. Fields that are not known are for a channel. Raises InvalidRequest."""
    values = dict(fields)  # of several the last one
    if upload is None:
        raise InvalidRequest("file: is missing; send the recording in this field.")
    if not upload.size_bytes:
        raise InvalidRequest("file: is empty.")
    if not values.get("model"):
        raise InvalidRequest("model: is missing; whisper-1 is built in.")
    if values.get("stream", "").lower() not in _FALSE:
        raise InvalidRequest("stream: transcripts are not offered as a stream; send false, or leave it out.")
    return TranscriptionRequest(
        upload=upload,
        translate=translate,
        model=values["model"],
        fields=fields,
        format=_format(values.get("response_format") or TranscriptFormat.JSON),
        language=_language(values.get("language") or None),
        prompt=_prompt(values.get("prompt", "")),
        temperature=_temperature(values.get("temperature") or "0"),
        words=_words(fields),
    )


def _format(value: str) -> TranscriptFormat:
    try:
        return TranscriptFormat(value)
    except ValueError:
        known = ", ".join(TranscriptFormat)
        raise InvalidRequest(f"response_format: must be one of {known}.") from None


def _language(value: str | None) -> str | None:
    if value is not None and not _LANGUAGE.fullmatch(value):
        raise InvalidRequest("language: must be a code of two or three letters, like zh.")
    return value


def _prompt(value: str) -> str:
    if len(value) > PROMPT_MAX_CHARS:
        raise InvalidRequest(f"prompt: has {len(value)} characters; at most {PROMPT_MAX_CHARS} are allowed.")
    return value


def _temperature(value: str) -> float:
    if not _NUMBER.fullmatch(value) or float(value) > 1:
        raise InvalidRequest("temperature: must be a number from 0 to 1.")
    return float(value)


def _words(fields: Sequence[tuple[str, str]]) -> bool:
    found = [value for name, value in fields if name == GRANULARITY_FIELD]
    if set(found) - set(GRANULARITIES):
        raise InvalidRequest(f"{GRANULARITY_FIELD}: must be segment or word.")
    return "word" in found

"""The request, a recording and the fields of its form, and the transcript in the formats of OpenAI's API."""

import re
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Final, Literal

import msgspec
from msgspec import Struct

from myna.engines.audio.word_times import srt, vtt
from myna.engines.media.job import Script, Segment, Transcript, Word
from myna.errors import InvalidRequest
from myna.http.responses import JSON
from myna.wire.body import to_event

PROMPT_MAX_CHARS: Final = 2000
GRANULARITIES: Final = ("segment", "word")
GRANULARITY_FIELDS: Final = ("timestamp_granularities[]", "timestamp_granularities")
NOT_STREAMED: Final = "whisper-1"
"""The model whose answer is never a stream; OpenAI ignores `stream` for it too."""
EVENTS: Final = b"text/event-stream; charset=utf-8"
_LANGUAGE: Final = re.compile(r"[a-z]{2,3}(-[a-z0-9]{1,8})*")
_HONG_KONG: Final = {"hk", "mo"}
_TRADITIONAL: Final = {"hant", "tw"}
_NUMBER: Final = re.compile(r"[0-9]{1,3}(\.[0-9]{1,12})?")
_FALSE: Final = ("", "false", "0")
_NAMES: Final = """
af afrikaans, am amharic, ar arabic, as assamese, az azerbaijani, ba bashkir, be belarusian, bg bulgarian,
bn bengali, bo tibetan, br breton, bs bosnian, ca catalan, cs czech, cy welsh, da danish, de german, el greek,
en english, es spanish, et estonian, eu basque, fa persian, fi finnish, fo faroese, fr french, gl galician,
gu gujarati, ha hausa, haw hawaiian, he hebrew, hi hindi, hr croatian, ht haitian creole, hu hungarian,
hy armenian, id indonesian, is icelandic, it italian, ja japanese, jw javanese, ka georgian, kk kazakh,
km khmer, kn kannada, ko korean, la latin, lb luxembourgish, ln lingala, lo lao, lt lithuanian, lv latvian,
mg malagasy, mi maori, mk macedonian, ml malayalam, mn mongolian, mr marathi, ms malay, mt maltese,
my myanmar, ne nepali, nl dutch, nn nynorsk, no norwegian, oc occitan, pa punjabi, pl polish, ps pashto,
pt portuguese, ro romanian, ru russian, sa sanskrit, sd sindhi, si sinhala, sk slovak, sl slovenian, sn shona,
so somali, sq albanian, sr serbian, su sundanese, sv swedish, sw swahili, ta tamil, te telugu, tg tajik,
th thai, tk turkmen, tl tagalog, tr turkish, tt tatar, uk ukrainian, ur urdu, uz uzbek, vi vietnamese,
yi yiddish, yo yoruba, yue cantonese, zh chinese
"""
LANGUAGES: Final = {
    code: name for code, _, name in (pair.strip().partition(" ") for pair in _NAMES.split(","))
}


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
    one it is detected. `script` is that of a Mandarin transcript. `temperature` is 0 to 1."""

    upload: Upload
    translate: bool
    model: str
    fields: Sequence[tuple[str, str]]
    format: TranscriptFormat
    language: str | None
    prompt: str
    temperature: float
    words: bool
    stream: bool
    script: Script

    @property
    def media_type(self) -> bytes:
        """That of the response."""
        return EVENTS if self.stream else self.format.media_type


def read(
    fields: Sequence[tuple[str, str]], upload: Upload | None, *, translate: bool
) -> TranscriptionRequest:
    """The request of a form. Fields that are not known are for a channel. Raises InvalidRequest."""
    values = dict(fields)  # of several the last one
    if upload is None:
        raise InvalidRequest("is missing; send the recording in this field.", field="file")
    if not upload.size_bytes:
        raise InvalidRequest("is empty.", field="file")
    if not values.get("model"):
        raise InvalidRequest("is missing; whisper-1 is built in.", field="model")
    kind = _format(values.get("response_format") or TranscriptFormat.JSON)
    stream = values.get("stream", "").lower() not in _FALSE and not translate
    language, script = _language(values.get("language", ""))
    return TranscriptionRequest(
        upload=upload,
        translate=translate,
        model=values["model"],
        fields=fields,
        format=kind,
        language=language,
        prompt=_prompt(values.get("prompt", "")),
        temperature=_temperature(values.get("temperature") or "0"),
        words=_words(fields),
        stream=stream and kind is TranscriptFormat.JSON and values["model"] != NOT_STREAMED,
        script=script,
    )


def _format(value: str) -> TranscriptFormat:
    try:
        return TranscriptFormat(value)
    except ValueError:
        known = ", ".join(TranscriptFormat)
        raise InvalidRequest(f"must be one of {known}.", field="response_format") from None


def _language(value: str) -> tuple[str | None, Script]:
    """The code of a tag like zh-TW, None for an empty one, and the script."""
    tag = value.lower().replace("_", "-")
    if not tag:
        return None, Script.SIMPLIFIED
    if not _LANGUAGE.fullmatch(tag):
        raise InvalidRequest(
            "must be a code of two or three letters like zh, or a tag like zh-TW.", field="language"
        )
    code, *more = tag.split("-")
    if "hans" not in more:
        if _HONG_KONG.intersection(more):
            return code, Script.HONG_KONG
        if _TRADITIONAL.intersection(more):
            return code, Script.TAIWAN
    return code, Script.SIMPLIFIED


def _prompt(value: str) -> str:
    if len(value) > PROMPT_MAX_CHARS:
        raise InvalidRequest(
            f"has {len(value)} characters; at most {PROMPT_MAX_CHARS} are allowed.", field="prompt"
        )
    return value


def _temperature(value: str) -> float:
    if not _NUMBER.fullmatch(value) or float(value) > 1:
        raise InvalidRequest("must be a number from 0 to 1.", field="temperature")
    return float(value)


def _words(fields: Sequence[tuple[str, str]]) -> bool:
    found = [(name, value) for name, value in fields if name in GRANULARITY_FIELDS]
    for name, value in found:
        if value not in GRANULARITIES:
            raise InvalidRequest("must be segment or word.", field=name)
    return any(value == "word" for _, value in found)


class TranscriptUsage(Struct, frozen=True):
    """The length of the recording, in whole seconds."""

    type: Literal["duration"]
    seconds: int


class TranscriptText(Struct, frozen=True):
    """`json`."""

    text: str
    usage: TranscriptUsage


class VerboseTranscript(Struct, frozen=True, omit_defaults=True):
    """`verbose_json`. `language` is a name like chinese, times are in seconds."""

    task: str = msgspec.field()
    language: str = msgspec.field()
    duration: float = msgspec.field()
    text: str = msgspec.field()
    segments: Sequence[Segment] = msgspec.field()
    usage: TranscriptUsage = msgspec.field()
    words: Sequence[Word] | None = None


class _Delta(Struct, tag_field="type", tag="transcript.text.delta"):
    delta: str


class _Read(Struct):
    text: str
    usage: dict[str, object] | None = None


class _Done(_Read, tag_field="type", tag="transcript.text.done", omit_defaults=True):
    """The whole text, and the usage as the channel states it."""


def encoded(transcript: Transcript, kind: TranscriptFormat, *, translated: bool, words: bool) -> bytes:
    """The body of the response; never empty."""
    usage = TranscriptUsage("duration", round(transcript.duration))
    cues = ((one.text.strip(), one.start, one.end) for one in transcript.segments)
    match kind:
        case TranscriptFormat.JSON:
            return msgspec.json.encode(TranscriptText(transcript.text, usage))
        case TranscriptFormat.TEXT:
            return f"{transcript.text}\n".encode()
        case TranscriptFormat.SRT:
            return (srt(cues) or "\n").encode()
        case TranscriptFormat.VTT:
            return vtt(cues).encode()
        case TranscriptFormat.VERBOSE_JSON:
            verbose = VerboseTranscript(
                task="translate" if translated else "transcribe",
                language="english" if translated else LANGUAGES.get(transcript.language, transcript.language),
                duration=transcript.duration,
                text=transcript.text,
                segments=transcript.segments,
                usage=usage,
                words=transcript.words if words else None,
            )
            return msgspec.json.encode(verbose)


def events(answer: bytes) -> bytes:
    """A transcript in JSON as the events of a stream: its text, and that it is done."""
    done = msgspec.json.decode(answer, type=_Read)
    found = (_Delta(done.text), _Done(done.text, done.usage))
    return b"".join(map(to_event, found))

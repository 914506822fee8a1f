"""Transcripts in the formats of OpenAI's API. Pure."""

from collections.abc import Sequence
from typing import Final, Literal

import msgspec
from msgspec import Struct

from myna.engines.media.job import Segment, Transcript, Word
from myna.gateway.transcription.request import TranscriptFormat


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


_HOUR_MS: Final = 3_600_000
_MINUTE_MS: Final = 60_000
_SECOND_MS: Final = 1_000


def encoded(transcript: Transcript, kind: TranscriptFormat, *, translated: bool, words: bool) -> bytes:
    """The body of the response; never empty."""
    usage = TranscriptUsage("duration", round(transcript.duration))
    match kind:
        case TranscriptFormat.JSON:
            return msgspec.json.encode(TranscriptText(transcript.text, usage))
        case TranscriptFormat.TEXT:
            return f"{transcript.text}\n".encode()
        case TranscriptFormat.SRT:
            return _srt(transcript.segments).encode()
        case TranscriptFormat.VTT:
            return _vtt(transcript.segments).encode()
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
    return b"".join(b"data: %b\n\n" % msgspec.json.encode(one) for one in found)


def _srt(segments: Sequence[Segment]) -> str:
    cues = [
        f"{number}\n{_time(one.start, ',')} --> {_time(one.end, ',')}\n{one.text.strip()}\n\n"
        for number, one in enumerate(segments, 1)
    ]
    return "".join(cues) or "\n"


def _vtt(segments: Sequence[Segment]) -> str:
    cues = [f"{_time(one.start, '.')} --> {_time(one.end, '.')}\n{one.text.strip()}\n\n" for one in segments]
    return "WEBVTT\n\n" + "".join(cues)


def _time(seconds: float, comma: str) -> str:
    """`HH:MM:SS,mmm`."""
    hours, rest = divmod(round(seconds * _SECOND_MS), _HOUR_MS)
    minutes, rest = divmod(rest, _MINUTE_MS)
    return f"{hours:02}:{minutes:02}:{rest // _SECOND_MS:02}{comma}{rest % _SECOND_MS:03}"


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

"""Requests and responses of the audio endpoints of /openai/v1.

`openapi.json` is generated from these structs. Source: the reference of OpenAI's API.
"""

from typing import Annotated, Literal

from msgspec import Meta, Struct

Format = Literal["mp3", "opus", "aac", "flac", "wav", "pcm"]


class VoiceById(Struct, frozen=True):
    """A voice by its id."""

    id: str


class OpenAISpeechRequest(Struct, frozen=True):
    """POST /audio/speech. `instructions` are accepted and ignored."""

    model: str
    input: Annotated[str, Meta(description="what to speak")]
    voice: str | VoiceById | None = None
    response_format: Format | None = None
    speed: Annotated[float, Meta(ge=0.25, le=4)] | None = None
    stream_format: Literal["audio", "sse"] | None = None
    timestamps: Annotated[bool, Meta(description="answer in JSON, with the times of words")] | None = None
    return_timestamps: Annotated[bool, Meta(description="the same, as Kokoro-FastAPI calls it")] | None = None
    stream: Annotated[bool, Meta(description="with timestamps: an object a line")] | None = None
    instructions: str | None = None


class SpeechUsage(Struct, frozen=True):
    """Counts of characters: a voice has no tokens."""

    input_tokens: int
    output_tokens: int
    total_tokens: int


class WordTimestamp(Struct, frozen=True):
    """A word and when it is spoken, in seconds, as Kokoro-FastAPI writes it."""

    word: str
    start_time: float
    end_time: float


class CaptionedSpeech(Struct, frozen=True):
    """A sound, or a part of one, in base64, its content type, and the times of its words, null if the voice
    does not tell them."""

    audio: str
    audio_format: str
    timestamps: list[WordTimestamp] | None


class SpeechDelta(Struct, frozen=True, tag="speech.audio.delta", omit_defaults=True):
    """An event with a part of the sound, in base64."""

    audio: str
    timestamps: list[WordTimestamp] | None = None


class SpeechEnd(Struct, frozen=True, tag="speech.audio.done"):
    """The last event."""

    usage: SpeechUsage


class AudioVoice(Struct, frozen=True):
    """A voice that `voice` may name. `gender` is female, male or neutral, `language` a code like zh-CN."""

    id: str
    name: str
    gender: str
    language: str


class AudioVoices(Struct, frozen=True):
    """GET /audio/voices."""

    voices: list[AudioVoice]

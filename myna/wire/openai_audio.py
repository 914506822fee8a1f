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
    instructions: str | None = None


class SpeechUsage(Struct, frozen=True):
    """Counts of characters: a voice has no tokens."""

    input_tokens: int
    output_tokens: int
    total_tokens: int


class SpeechDelta(Struct, frozen=True, tag="speech.audio.delta"):
    """An event with a part of the sound, in base64."""

    audio: str


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

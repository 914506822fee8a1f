"""Requests and responses of /openai/v1, as far as the service reads or makes them. `openapi.json`
is generated from these structs.

Source: the reference of OpenAI's API. Fields that are not here pass through.

Also the names of OpenAI's voices, which clients send as they are, and the voices of the site that answer to
them.
"""

import re
from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from myna.errors.sentences import WrongValue
from myna.wire.v1 import Model


class OpenAIErrorBody(Struct, frozen=True):
    """`param` is the field at fault, `code` a word that programs compare."""

    message: str
    type: str
    param: str | None
    code: str | None


class OpenAIError(Struct, frozen=True):
    """The envelope of every error below /openai/v1."""

    error: OpenAIErrorBody


class RoutedModel(Model, frozen=True):
    """An item of GET /models: also what the model does, the units of a call, and how many tokens it takes,
    where the operator or its server says it."""

    kind: str
    units: int
    context_length: int | UnsetType = UNSET


class RoutedModelList(Struct, frozen=True):
    """The answer of GET /models."""

    object: str
    data: list[RoutedModel]


class DeletedResponse(Struct, frozen=True):
    """The answer of DELETE /responses/{id}."""

    id: str
    object: str
    deleted: bool


class StreamOptions(Struct, frozen=True):
    """`include_usage`: an event with the usage comes before the end of the stream."""

    include_usage: bool | None = None


class RelayedRequest(Struct, frozen=True):
    """The fields that every relayed request may have."""

    model: str
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    n: Annotated[int, Meta(ge=1, le=128)] | None = None


class OpenAIChatRequest(RelayedRequest, frozen=True, kw_only=True):
    """POST /chat/completions. Messages pass to the channel as they are."""

    messages: list[dict[str, Any]]


class CompletionRequest(RelayedRequest, frozen=True, kw_only=True):
    """POST /completions. `prompt` is a text, a list of texts, or tokens. Each prompt has `n` answers."""

    prompt: str | list[Any] | None = None
    best_of: int | None = None


class EmbeddingsRequest(Struct, frozen=True):
    """POST /embeddings. `input` is a text, a list of texts, or tokens."""

    model: str
    input: str | list[Any]
    encoding_format: Any = None


SpeechFormat = Literal["mp3", "opus", "aac", "flac", "wav", "pcm"]
"""The values of `response_format`: see `FORMATS` of `engines/audio/encoders.py`."""
DEFAULT_VOICES: Final = (
    "alloy=af_alloy,ash=am_michael,ballad=bm_george,coral=af_bella,echo=am_echo,fable=bm_fable,nova=af_nova,"
    "onyx=am_onyx,sage=af_sarah,shimmer=af_sky,verse=am_puck,marin=af_heart,cedar=am_fenrir"
)
"""Kokoro's English voices."""
NAMES: Final = frozenset(pair.partition("=")[0] for pair in DEFAULT_VOICES.split(","))
_PAIR: Final = re.compile(r"([a-z]{1,40})=([^\s=,]{1,100})")
_PAIRS_MAX: Final = 100


class VoiceById(Struct, frozen=True):
    """A voice by its id."""

    id: str


class OpenAISpeechRequest(Struct, frozen=True):
    """POST /audio/speech. `instructions` are accepted and ignored."""

    model: str
    input: Annotated[str, Meta(description="what to speak")]
    voice: str | VoiceById | None = None
    response_format: SpeechFormat | None = None
    speed: Annotated[float, Meta(ge=0.25, le=4)] | None = None
    volume: Annotated[float, Meta(ge=0, le=4, description="a factor")] | None = None
    volume_multiplier: Annotated[float, Meta(ge=0, le=4, description="the same")] | None = None
    language: Annotated[str, Meta(max_length=35, description="such as fr or zh-CN")] | None = None
    lang_code: Annotated[str, Meta(max_length=35, description="the same, or Kokoro's letter")] | None = None
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


def voice_mapping(text: str) -> Mapping[str, str]:
    """The voice's id by name, of a text such as `alloy=af_alloy,echo=am_echo`. Raises ValueError."""
    found = [_PAIR.fullmatch(pair.strip()) for pair in text.split(",") if pair.strip()]
    if len(found) > _PAIRS_MAX:
        raise WrongValue("must have at most {most} names", most=_PAIRS_MAX)
    pairs = [(pair[1], pair[2]) for pair in found if pair]
    if len(pairs) < len(found) or len(dict(pairs)) < len(pairs):
        raise WrongValue("must be NAME=VOICE_ID, several separated by commas, each name once")
    return dict(pairs)


def voice_id_of(name: str, mapping: Mapping[str, str], listed: Mapping[str, str]) -> str:
    """The id of the voice that `name` means, of those `listed` by id with their names: a voice of that id;
    else the one that the mapping has for the name; else the only voice of that name; all in any case. Empty,
    for the default voice, if the mapping's voice is not listed, or for a name of OpenAI's that the mapping
    lacks."""
    if name in listed:
        return name
    folded = name.casefold()
    if folded in NAMES | mapping.keys():
        mapped = mapping.get(folded, "")
        return mapped if mapped in listed else ""
    by_id = [voice_id for voice_id in listed if voice_id.casefold() == folded]
    by_name = [voice_id for voice_id, named in listed.items() if named.casefold() == folded]
    return next((found[0] for found in (by_id, by_name) if len(found) == 1), name)

"""Requests and responses of /v1. `openapi.json` is generated from these structs and their docstrings."""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

ModelId = Literal["svc-chat", "svc-agent"]
MODELS: tuple[ModelId, ...] = ("svc-chat", "svc-agent")


class ErrorBody(Struct, frozen=True):
    """`code` is the HTTP status; `message` says what to change."""

    message: str
    type: str
    code: int


class ErrorAnswer(Struct, frozen=True):
    """The envelope of every answer that isn't a success."""

    error: ErrorBody


class KeyStats(Struct, frozen=True):
    """Calls that were charged, the units they cost less refunds, and how many were delivered."""

    calls: int
    cost: int
    ok_calls: int


class KeyInfo(Struct, frozen=True):
    """GET /me. `expires_at` in Unix seconds, 0 for never."""

    ok: int
    key_name: str
    masked: str
    scopes: list[str]
    use_count: int
    expires_at: int
    stats: KeyStats


class Model(Struct, frozen=True):
    """An item of GET /models."""

    id: str
    object: str
    created: int
    owned_by: str


class ModelList(Struct, frozen=True):
    """GET /models."""

    object: str
    data: list[Model]


class Voice(Struct, frozen=True):
    """An item of GET /voices; `source` is `public` or `clone`."""

    voice_id: str
    name: str
    gender: str
    language: str
    source: str


class VoiceList(Struct, frozen=True):
    """GET /voices. `default` is the first voice's id, empty where there is none."""

    object: str
    data: list[Voice]
    default: str


class ChatRequest(Struct, frozen=True):
    """POST /chat/completions. Messages pass to the model as they came; the last user message decides.

    Further fields that mean something to a chat model are passed on, all others ignored.
    """

    model: Annotated[ModelId, Meta(extra={"hint": "Other models are on /openai/v1."})]
    messages: list[dict[str, Any]]
    stream: bool | None = None


class ChatMessage(Struct, frozen=True, omit_defaults=True):
    """What the assistant says. `tool_calls` as the model gave them, where it called tools."""

    role: str = msgspec.field()
    content: str = msgspec.field()
    tool_calls: list[dict[str, Any]] | None = None


class ChatChoice(Struct, frozen=True):
    """One answer."""

    index: int
    message: ChatMessage
    finish_reason: str


class Usage(Struct, frozen=True):
    """Counts of Han characters; indicative, no tokens."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int


class SpokenAnswer(Struct, frozen=True):
    """Beside a chat answer that was routed to speech. `mode` is `sync` or `async`."""

    url: str
    task_id: int
    mode: str
    voice_id: str
    text: str
    chars: int


class ChatCompletion(Struct, frozen=True, omit_defaults=True):
    """POST /chat/completions. Routed to speech, the content is the audio address and `audio` is there."""

    id: str = msgspec.field()
    object: str = msgspec.field()
    created: int = msgspec.field()
    model: str = msgspec.field()
    choices: list[ChatChoice] = msgspec.field()
    usage: Usage = msgspec.field()
    audio: SpokenAnswer | None = None


class SpeechRequest(Struct, frozen=True):
    """POST /tts. `speed` is a decimal string from 0.25 to 4.0."""

    text: Annotated[str, Meta(description="what to speak")]
    voice_id: str | None = None
    speed: str | None = None


class SpeechDone(Struct, frozen=True):
    """POST /tts, spoken at once. `cost` in units, `chars` in code points."""

    ok: int
    mode: Literal["sync"]
    audio_url: str
    chars: int
    cost: int


class SpeechOrdered(Struct, frozen=True):
    """POST /tts, left to a compute node: `id` is for GET /task; `cost` in units, already charged."""

    ok: int
    mode: Literal["async"]
    id: int
    tip: str
    cost: int


class Task(Struct, frozen=True):
    """`data` of GET /task. `status`: 0 queued, 1 processing, 2 completed, 3 failed."""

    id: int
    status: int
    status_text: str
    text: str
    chars: int
    audio_url: str


class TaskAnswer(Struct, frozen=True):
    """GET /task."""

    ok: int
    data: Task


class Record(Task, frozen=True):
    """An item of GET /records. `create_time` in Unix seconds."""

    create_time: int


class RecordList(Struct, frozen=True):
    """GET /records, newest first. `count` is the length of `data`; `has_more` tells of older ones."""

    object: str
    count: int
    data: list[Record]
    has_more: bool

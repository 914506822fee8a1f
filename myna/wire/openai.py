"""Requests and responses of /openai/v1, as far as the service reads or makes them.

Source: the reference of OpenAI's API. Fields that are not here pass through.
"""

from typing import Annotated, Any

from msgspec import UNSET, Meta, Struct, UnsetType

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


class Usage(Struct, frozen=True):
    """Tokens, or Han characters where the channel counts no tokens."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int

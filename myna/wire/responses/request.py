"""The body of POST /responses as the body of POST /chat/completions."""

from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from myna.errors import InvalidRequest
from myna.wire.body import convert
from myna.wire.responses.items import messages_of
from myna.wire.responses.tools import Tools, given

STATELESS = "this service is stateless and keeps no responses"
LOGPROBS = "message.output_text.logprobs"
"""In `include`: the log probabilities of the answer's tokens."""


class TextFormat(Struct, frozen=True, tag_field="type", tag="text"):
    """Free text."""


class JsonObjectFormat(Struct, frozen=True, tag_field="type", tag="json_object"):
    """Any JSON object."""


class JsonSchemaFormat(Struct, frozen=True, tag_field="type", tag="json_schema"):
    """JSON that matches a schema."""

    name: str
    schema: dict[str, Any]
    description: str | None = None
    strict: bool | None = None


class TextOptions(Struct, frozen=True):
    """How the text of the answer looks."""

    format: TextFormat | JsonObjectFormat | JsonSchemaFormat | None = None
    verbosity: str | None = None


class Reasoning(Struct, frozen=True):
    """How much a reasoning model thinks."""

    effort: str | None = None


class ResponsesRequest(Struct, frozen=True):
    """POST /responses. All other fields are ignored.

    `truncation` and `service_tier` are among those: they don't change what a service without built-in tools
    answers, and nor does what `include` names, but for log probabilities. `metadata`, `prompt_cache_key`,
    `safety_identifier` and `max_tool_calls` are repeated in the response and not sent to the model.
    """

    model: str
    input: str | list[dict[str, Any]]
    instructions: str | None = None
    tools: list[dict[str, Any]] | None = None
    tool_choice: str | dict[str, Any] | None = None
    parallel_tool_calls: bool | None = None
    text: TextOptions | None = None
    max_output_tokens: int | None = None
    reasoning: Reasoning | None = None
    temperature: float | None = None
    top_p: float | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    prompt_cache_key: str | None = None
    safety_identifier: str | None = None
    max_tool_calls: int | None = None
    top_logprobs: int | None = None
    include: list[str] | None = None
    user: str | None = None
    metadata: dict[str, str] | None = None
    stream: bool | None = None
    store: bool | None = None
    background: bool | None = None
    previous_response_id: str | None = None
    conversation: Any = None
    prompt: Any = None


def to_chat(
    fields: dict[str, Any], tools: Tools, earlier: Sequence[dict[str, Any]] | None = None
) -> dict[str, Any]:
    """The body for POST /chat/completions, with these tools of it, and the items that it continues; None
    where no responses are kept. A stream asks for its usage.

    Raises InvalidRequest, whose message begins with the name of the field.
    """
    request = convert(fields, ResponsesRequest)
    if earlier is None:
        _refuse_stored(request)
    _refuse_state(request)
    chat: dict[str, Any] = {
        "model": request.model,
        "messages": messages_of(request.instructions, request.input, tools, earlier or ()),
        **(called := tools.chosen(request.tool_choice)),
        "parallel_tool_calls": request.parallel_tool_calls if called else None,
        "max_completion_tokens": request.max_output_tokens,
        "temperature": request.temperature,
        "top_p": request.top_p,
        "presence_penalty": request.presence_penalty,
        "frequency_penalty": request.frequency_penalty,
        "user": request.user,
        "stream": request.stream,
    }
    if request.top_logprobs or LOGPROBS in (request.include or ()):
        chat |= {"logprobs": True, "top_logprobs": request.top_logprobs}
    if request.stream:
        chat["stream_options"] = {"include_usage": True}
    if request.reasoning is not None:
        chat["reasoning_effort"] = request.reasoning.effort
    if request.text is not None:
        chat["response_format"] = _response_format(request.text)
        chat["verbosity"] = request.text.verbosity
    return {name: value for name, value in chat.items() if value is not None}


def _refuse_stored(request: ResponsesRequest) -> None:
    if request.store:
        raise InvalidRequest(f"must be false; {STATELESS}.", field="store")
    if request.previous_response_id is not None:
        raise InvalidRequest(f"{STATELESS}; send the earlier items in input.", field="previous_response_id")


def _refuse_state(request: ResponsesRequest) -> None:
    if request.background:
        raise InvalidRequest(
            "must be false; a response is the answer to its request here.", field="background"
        )
    if request.conversation is not None:
        raise InvalidRequest(
            "this service keeps none; send the earlier items in input.", field="conversation"
        )
    if request.prompt is not None:
        raise InvalidRequest("this service keeps no prompts; send instructions and input.", field="prompt")


def _response_format(text: TextOptions) -> dict[str, Any] | None:
    match text.format:
        case JsonObjectFormat():
            return {"type": "json_object"}
        case JsonSchemaFormat() as schema:
            return {"type": "json_schema", "json_schema": given(schema)}
        case _:
            return None

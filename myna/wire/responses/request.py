"""The body of POST /responses as the body of POST /chat/completions.

The input of a response is a text or a list of items: messages, calls of tools and their outputs. The
consecutive items of the assistant become one message, since a chat's tool calls and the text before them are
one message, and so do those of the system and the developer: templates of models refuse a second message of
the system. The text of reasoning becomes the `reasoning_content` of the assistant's message, without which
thinking models of DeepSeek and Moonshot refuse the calls in it. References to reasoning are left out, and so
are tools and calls of hosted ones, which `Tools` reads.
"""

from collections.abc import Sequence
from typing import Any, Final, Literal

from msgspec import Struct

from myna.errors import InvalidRequest
from myna.wire.body import convert
from myna.wire.lenient import objects_of, text_of
from myna.wire.responses.tools import Tools, given, is_of_tools, to_arguments

REASONING: Final = "reasoning_content"
REASONING_ID_PREFIX = "rs_"
"""The beginning of the ids of reasoning items. The AI SDK sends these ids back."""
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


class InputText(Struct, frozen=True, tag_field="type", tag="input_text"):
    """Text of the caller."""

    text: str


class InputImage(Struct, frozen=True, tag_field="type", tag="input_image"):
    """An image by its address or as a data URL."""

    image_url: str | None = None
    detail: str | None = None


class InputFile(Struct, frozen=True, tag_field="type", tag="input_file"):
    """A file as a data URL."""

    file_data: str | None = None
    filename: str | None = None


class InputAudio(Struct, frozen=True, tag_field="type", tag="input_audio"):
    """Sound, as a chat has it."""

    input_audio: dict[str, Any]


class OutputText(Struct, frozen=True, tag_field="type", tag="output_text"):
    """Text of the assistant."""

    text: str


class Refusal(Struct, frozen=True, tag_field="type", tag="refusal"):
    """The assistant's refusal, which is text for the model."""

    refusal: str


Part = InputText | InputImage | InputFile | InputAudio | OutputText | Refusal


class Message(Struct, frozen=True):
    """A message of the caller, or an earlier one of the assistant."""

    role: Literal["user", "assistant", "system", "developer"]
    content: str | list[Part]


class FunctionCall(Struct, frozen=True):
    """A call of a function by the model. `arguments` is JSON."""

    call_id: str
    name: str
    arguments: str
    namespace: str | None = None


class CustomToolCall(Struct, frozen=True):
    """A call of a custom tool by the model."""

    call_id: str
    name: str
    input: str
    namespace: str | None = None


class CallOutput(Struct, frozen=True):
    """What the called function or custom tool returned."""

    call_id: str
    output: str | list[Part]


_SHAPES: dict[str, type[Message] | type[FunctionCall] | type[CustomToolCall] | type[CallOutput]] = {
    "message": Message,
    "function_call": FunctionCall,
    "function_call_output": CallOutput,
    "custom_tool_call": CustomToolCall,
    "custom_tool_call_output": CallOutput,
}


def messages_of(
    instructions: str | None,
    items: str | Sequence[dict[str, Any]],
    tools: Tools,
    earlier: Sequence[dict[str, Any]] = (),
) -> list[dict[str, Any]]:
    """The messages of the chat, with those of `earlier` items before those of the request. The time is linear
    in the size of the items. Raises InvalidRequest."""
    messages: list[dict[str, Any]] = []
    if instructions:
        messages.append({"role": "system", "content": _parts(instructions, "instructions")})
    if isinstance(items, str):
        items = [{"role": "user", "content": items}]
    if not items:
        raise InvalidRequest("must have at least one item.", field="input")
    for number, item in enumerate([*earlier, *items], -len(earlier)):
        _add(messages, item, tools, f"input[{number}]")
    # Reasoning of a turn that was interrupted is no message.
    messages = [one for one in messages if one["content"] or one.keys() != {"role", "content", REASONING}]
    if not messages:
        raise InvalidRequest("has no item that a model reads; send a message too.", field="input")
    for message in messages:
        if REASONING in message:
            message[REASONING] = "".join(message[REASONING])
        message["content"] = _simplified(message["content"])
        if not message["content"]:
            message["content"] = None if message["role"] == "assistant" else ""
    return messages


def _add(messages: list[dict[str, Any]], item: dict[str, Any], tools: Tools, path: str) -> None:
    """Adds an item to the messages, whose contents are lists of parts until all items are added."""
    kind = _kind(item, path)
    if kind == "reasoning" and (parts := objects_of(item.get("content"))):
        _assistants(messages).setdefault(REASONING, []).extend(text_of(part.get("text")) for part in parts)
    if kind not in _SHAPES:
        return
    match convert(item, _SHAPES[kind], path):
        case Message(role="assistant") as message:
            _assistants(messages)["content"] += _parts(message.content, f"{path}.content")
        case Message() as message:
            role = "user" if message.role == "user" else "system"
            parts = _parts(message.content, f"{path}.content")
            if role == "system" and messages and messages[-1]["role"] == role:
                messages[-1]["content"] += parts
            else:
                messages.append({"role": role, "content": parts})
        case FunctionCall() | CustomToolCall() as call:
            arguments = call.arguments if isinstance(call, FunctionCall) else to_arguments(call.input)
            function = {"name": tools.name_of(call.name, call.namespace), "arguments": arguments}
            calls = _assistants(messages).setdefault("tool_calls", [])
            calls.append({"id": call.call_id, "type": "function", "function": function})
        case CallOutput() as result:
            content = _parts(result.output, f"{path}.output")
            messages.append({"role": "tool", "tool_call_id": result.call_id, "content": content})


def reference_of(item: dict[str, Any]) -> str | None:
    """The id of the item that this one refers to; None if it is no reference."""
    kind = item.get("type")
    is_reference = kind == "item_reference" or (kind is None and "id" in item and "role" not in item)
    return str(item.get("id")) if is_reference else None


def _kind(item: dict[str, Any], path: str) -> str:
    """The type of an item. Messages and references may have none. Raises InvalidRequest for other types than
    those of `_SHAPES`, reasoning, and what `Tools` reads."""
    reference = reference_of(item)
    if reference is not None:
        if reference.startswith(REASONING_ID_PREFIX):
            return "reasoning"
        raise InvalidRequest(
            "this service keeps no such item to refer to; send the item itself"
            " (the AI SDK does with the provider option store: false).",
            field=path,
        )
    kind = "message" if item.get("type") is None else item["type"]
    if isinstance(kind, str) and (kind in _SHAPES or kind == "reasoning" or is_of_tools(kind)):
        return kind
    names = ", ".join(f'"{name}"' for name in (*_SHAPES, "reasoning"))
    raise InvalidRequest(f"must be one of {names}; other tools are not run here.", field=f"{path}.type")


def _assistants(messages: list[dict[str, Any]]) -> dict[str, Any]:
    """The message of the assistant at the end, added if there is none."""
    if not messages or messages[-1]["role"] != "assistant":
        messages.append({"role": "assistant", "content": []})
    return messages[-1]


def _parts(content: str | list[Part], path: str) -> list[dict[str, Any]]:
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return [_part(part, f"{path}[{number}]") for number, part in enumerate(content)]


def _part(part: Part, path: str) -> dict[str, Any]:
    match part:
        case InputText() | OutputText():
            return {"type": "text", "text": part.text}
        case Refusal():
            return {"type": "text", "text": part.refusal}
        case InputImage():
            if part.image_url is None:
                raise InvalidRequest("is missing; this service keeps no files.", field=f"{path}.image_url")
            detail = {} if part.detail is None else {"detail": part.detail}
            return {"type": "image_url", "image_url": {"url": part.image_url, **detail}}
        case InputAudio():
            return {"type": "input_audio", "input_audio": part.input_audio}
        case InputFile():
            if part.file_data is None:
                raise InvalidRequest("is missing; this service keeps no files.", field=f"{path}.file_data")
            name = {} if part.filename is None else {"filename": part.filename}
            return {"type": "file", "file": {"file_data": part.file_data, **name}}


def _simplified(parts: list[dict[str, Any]]) -> str | list[dict[str, Any]]:
    """Parts that are all text as a string, which every server accepts, as vLLM and llama.cpp join them."""
    if all(part["type"] == "text" for part in parts):
        return "\n".join(part["text"] for part in parts)
    return parts

"""GET /openapi.json: the whole interface, made from the structs that parse and write it."""

from typing import Any, get_args

import msgspec
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from myna import __version__
from myna.wire import v1

_REF = "#/components/schemas/{name}"

_ERRORS = {
    "400": "the request isn't as documented",
    "401": "key missing, unknown, revoked, expired, or without the scope",
    "402": "not enough units, or speech by chat on a key without tts; nothing charged",
    "404": "no such task of this account",
    "413": "the body is over the limit",
    "500": "every channel failed, or a fault of ours; the units are back",
    "503": "nothing can speak this now, or the service is overloaded; nothing charged",
}

_IDEMPOTENCY = {
    "name": "Idempotency-Key",
    "in": "header",
    "required": False,
    "description": "A second request of the same key, path and body gets the first answer, uncharged.",
    "schema": {"type": "string", "minLength": 1, "maxLength": 255},
}
_TASK_ID = {"name": "id", "in": "query", "required": True, "schema": {"type": "integer"}}
_LIMIT = {
    "name": "limit",
    "in": "query",
    "required": False,
    "schema": {"type": "integer", "minimum": 1, "maximum": 200, "default": 100},
}
_BEFORE = {
    "name": "before",
    "in": "query",
    "required": False,
    "description": "Only records with a smaller id.",
    "schema": {"type": "integer", "minimum": 1},
}

_OPERATIONS: list[tuple[str, str, str, str, Any, Any, list[Any], tuple[str, ...]]] = [
    # path, method, scope, summary, request, answer, parameters, errors
    ("/me", "get", "", "The calling key and its usage", None, v1.KeyInfo, [], ()),
    ("/models", "get", "chat", "The models", None, v1.ModelList, [], ()),
    (
        "/chat/completions", "post", "chat", "A chat completion, or speech where the instruction asks for it",
        v1.ChatRequest, v1.ChatCompletion, [_IDEMPOTENCY], ("400", "402", "413", "503"),
    ),
    ("/voices", "get", "tts", "Voices that can be used now", None, v1.VoiceList, [], ()),
    (
        "/tts", "post", "tts", "Text to speech, at once or as a task",
        v1.SpeechRequest, v1.SpeechDone | v1.SpeechOrdered, [_IDEMPOTENCY], ("400", "402", "413", "503"),
    ),
    ("/task", "get", "tts", "A speech task of the account", None, v1.TaskAnswer, [_TASK_ID], ("400", "404")),
    (
        "/records", "get", "records", "Speech records, newest first",
        None, v1.RecordList, [_LIMIT, _BEFORE], ("400",),
    ),
]  # fmt: skip


class OpenApi:
    """Handler of the description."""

    def __init__(self, base_url: str) -> None:
        self._document = JSONResponse(describe(base_url)).body

    async def document(self, request: Request) -> Response:
        return Response(self._document, media_type="application/json")


def describe(base_url: str) -> dict[str, Any]:
    """The OpenAPI 3.1 document."""
    answers = [part for row in _OPERATIONS for part in (get_args(row[5]) or (row[5],))]
    requests = [row[4] for row in _OPERATIONS if row[4]]
    _, schemas = msgspec.json.schema_components([*requests, *answers, v1.ErrorAnswer], ref_template=_REF)
    schemas["SpeechRequest"]["properties"]["speed"]["description"] = (
        "A decimal string from 0.25 to 4.0; empty or left out: 1.0."
    )
    paths: dict[str, Any] = {}
    for row in _OPERATIONS:
        paths.setdefault(row[0], {})[row[1]] = _operation(*row)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Myna", "version": __version__},
        "servers": [{"url": f"{base_url}/v1"}],
        "security": [{"key": []}],
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
        },
    }


def _operation(
    path: str,
    method: str,
    scope: str,
    summary: str,
    body: Any,
    answer: Any,
    parameters: list[Any],
    errors: tuple[str, ...],
) -> dict[str, Any]:
    shown = f"{summary}. Needs the {scope} scope." if scope else f"{summary}. Needs no scope."
    operation: dict[str, Any] = {
        "operationId": method + path.replace("/", "_"),
        "summary": summary,
        "description": shown,
        "parameters": parameters,
        "responses": {"200": _answer("success", answer)},
    }
    for status in sorted({"401", "500", *errors}):
        operation["responses"][status] = _answer(_ERRORS[status], v1.ErrorAnswer)
    if body:
        operation["requestBody"] = {"required": True, "content": _content(body)}
    return operation


def _answer(description: str, shape: Any) -> dict[str, Any]:
    headers = {"X-Request-Id": {"schema": {"type": "string"}}}
    return {"description": description, "headers": headers, "content": _content(shape)}


def _content(shape: Any) -> dict[str, Any]:
    parts = get_args(shape) or (shape,)
    refs = [{"$ref": _REF.format(name=part.__name__)} for part in parts]
    return {"application/json": {"schema": refs[0] if len(refs) == 1 else {"oneOf": refs}}}

"""GET /openapi.json: the whole API, generated from the structs that decode and encode it."""

import re
from typing import Any, get_args

import msgspec
from msgspec import structs
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from myna import __version__
from myna.api.operations import (
    AUDIO,
    ERRORS,
    FARM_ERRORS,
    FARM_OPERATIONS,
    OBJECT,
    OPENAI_ERRORS,
    OPENAI_OPERATIONS,
    OPERATIONS,
    Operation,
    limit_fields,
)
from myna.api.operations import PREFIX as OPENAI
from myna.config import ConfigCache
from myna.http.responses import JSON
from myna.wire import openai, v1
from myna.wire.body import NAMES_MAX

_REF = "#/components/schemas/{name}"
_ALWAYS = ("401", "500", "503")
_OF_KEYS = ("429",)
"""Of every operation that an API key opens."""
_CHARGED = ("/chat/completions", "/tts")
_WITH_IGNORED = ("/tts", f"{OPENAI}/audio/speech")
_UNITS = {
    "X-Units-Cost": {
        "description": "The units that this request cost; 0 for a stored response.",
        "schema": {"type": "integer"},
    },
    "X-Units-Balance": {
        "description": "The account's balance after it.",
        "schema": {"type": "integer"},
    },
}
_IGNORED = {
    "X-Ignored-Fields": {
        "description": f"The names of the body's unknown fields, {NAMES_MAX} at most, and the number of the"
        " others. Only if there are any.",
        "schema": {"type": "string"},
        "example": "voice, format, 2 more",
    },
}
_UNSPOKEN = {
    "X-Unspoken": {
        "description": "What of the text was not spoken, and how often: letters of scripts that the voice"
        " does not have, emoji, signs, and markup by its name. Only if there is any.",
        "schema": {"type": "string"},
        "example": "Thai 6, Emoji 1, <prosody> 2",
    },
}
_IGNORED_TOOLS = {
    "X-Ignored-Tools": {
        "description": "The types of the tools that nothing here can run and that were left out. Only if"
        " there are any.",
        "schema": {"type": "string"},
        "example": "web_search",
    },
}
_CHANNEL = {
    "X-Myna-Channel": {
        "description": "The channel that answered; `node` for compute nodes. Not of a stored response.",
        "schema": {"type": "string"},
    },
}
_RATE = {
    "X-RateLimit-Limit-Requests": {
        "description": "The calls per minute of the key or the account, whichever has fewer left. This"
        " header and the next two only if they are limited.",
        "schema": {"type": "integer"},
    },
    "X-RateLimit-Remaining-Requests": {
        "description": "The calls that are left in this minute.",
        "schema": {"type": "integer"},
    },
    "X-RateLimit-Reset-Requests": {
        "description": "The time until the minute ends.",
        "schema": {"type": "string"},
        "example": "1m12s",
    },
}
_RETRY = {
    "Retry-After": {
        "description": "The seconds after which the same request may be sent again.",
        "schema": {"type": "integer"},
    },
}


class OpenApi:
    """Handler of the OpenAPI document, which is generated again when the limit on a text has changed."""

    def __init__(self, base_url: str, config: ConfigCache) -> None:
        self._base_url = base_url
        self._config = config
        self._document = b""
        self._chars = 0

    async def document(self, request: Request) -> Response:
        chars = self._config.settings.tts_max_chars
        if chars != self._chars:
            self._document = bytes(JSONResponse(describe(self._base_url, chars)).body)
            self._chars = chars
        return Response(self._document, media_type=JSON.decode())


def describe(base_url: str, tts_max_chars: int) -> dict[str, Any]:
    """The OpenAPI 3.1 document."""
    everything = [*OPERATIONS, *OPENAI_OPERATIONS, *FARM_OPERATIONS]
    shapes = [part for one in everything for shape in (one.body, one.answer) for part in _parts(shape)]
    _, schemas = msgspec.json.schema_components(
        [*shapes, v1.ErrorAnswer, openai.OpenAIError], ref_template=_REF
    )
    limit_fields(schemas, tts_max_chars)
    paths: dict[str, Any] = {}
    for one in OPERATIONS:
        needs = f"Needs the {one.scope} scope." if one.scope else "Needs no scope."
        keyed = structs.replace(one, errors=(*one.errors, *_OF_KEYS))
        paths.setdefault(one.path, {})[one.method] = _operation(keyed, ERRORS, needs)
    for one in OPENAI_OPERATIONS:
        keyed = structs.replace(one, errors=(*one.errors, *_OF_KEYS))
        described = _operation(keyed, OPENAI_ERRORS, f"Needs the {one.scope} scope.", openai.OpenAIError)
        paths.setdefault(one.path, {"servers": [{"url": base_url}]})[one.method] = described
    for one in FARM_OPERATIONS:
        described = _operation(one, FARM_ERRORS, "For compute nodes.")
        described["security"] = [] if one.path.endswith("/join") else [{"node": []}]
        paths[one.path] = {"servers": [{"url": base_url}], one.method: described}
    return {
        "openapi": "3.1.0",
        "info": {"title": "Myna", "version": __version__},
        "servers": [{"url": f"{base_url}/v1"}],
        "security": [{"key": []}],
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {
                "key": {"type": "http", "scheme": "bearer"},
                "node": {"type": "http", "scheme": "bearer", "description": "A compute node's credential."},
            },
        },
    }


def _operation(
    one: Operation, errors: dict[str, str], about: str, error: Any = v1.ErrorAnswer
) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "operationId": re.sub(r"\W+", "_", one.method + one.path).strip("_"),
        "summary": one.summary,
        "description": f"{one.summary}. {about}",
        "parameters": list(one.parameters),
        "responses": {"200": _answer("success", one.answer)},
    }
    if one.streams:
        operation["responses"]["200"]["content"]["text/event-stream"] = {"schema": {"type": "string"}}
    operation["responses"]["200"]["headers"] |= _headers_of(one)
    for status in sorted({*_ALWAYS, *one.errors}):
        operation["responses"][status] = _answer(errors[status], error)
    for status in _OF_KEYS:
        if status in one.errors:
            limits = _RATE if _is_charged(one) else {}
            operation["responses"][status]["headers"] |= _RETRY | limits
    if one.body:
        operation["requestBody"] = {"required": True, "content": _content(one.body)}
    if one.form:
        operation["requestBody"] = {
            "required": True,
            "content": {"multipart/form-data": {"schema": one.form}},
        }
    return operation


def _is_charged(one: Operation) -> bool:
    return one.path in _CHARGED or (one.path.startswith(OPENAI) and one.method == "post")


def _headers_of(one: Operation) -> dict[str, Any]:
    """The headers of a success, in addition to those of every answer."""
    headers: dict[str, Any] = {}
    if _is_charged(one):
        headers |= _UNITS | _RATE
        if one.path.startswith(OPENAI):
            headers |= _CHANNEL
    elif one.path == "/me":
        headers |= _UNITS
    if one.path in _WITH_IGNORED:
        headers |= _IGNORED | _UNSPOKEN
    if one.path == f"{OPENAI}/responses":
        headers |= _IGNORED_TOOLS
    return headers


def _answer(description: str, shape: Any) -> dict[str, Any]:
    headers = {"X-Request-Id": {"schema": {"type": "string"}}}
    return {"description": description, "headers": headers, "content": _content(shape)}


def _content(shape: Any) -> dict[str, Any]:
    if shape is AUDIO:
        sound = {"schema": {"type": "string", "format": "binary"}}
        return {"audio/*": sound, "application/octet-stream": sound}  # generators know no range of types
    if shape is OBJECT:
        return {"application/json": {"schema": {"type": "object"}}}
    refs = [{"$ref": _REF.format(name=part.__name__)} for part in _parts(shape)]
    return {"application/json": {"schema": refs[0] if len(refs) == 1 else {"oneOf": refs}}}


def _parts(shape: Any) -> tuple[Any, ...]:
    """The structs of a shape, which may be one of several."""
    return () if shape is None or shape is AUDIO or shape is OBJECT else get_args(shape) or (shape,)

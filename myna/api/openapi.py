"""GET /openapi.json: the whole API, generated from the structs that decode and encode it."""

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, get_args

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from myna import __version__
from myna.api.operations import (
    AUDIO,
    FARM,
    IDEMPOTENCY,
    OBJECT,
    OPENAI,
    RATE,
    RETRY,
    UNITS,
    V1,
    Api,
    Operation,
    limit_fields,
)
from myna.config import ConfigCache
from myna.http.responses import JSON

_APIS = (V1, OPENAI, FARM)
_REF = "#/components/schemas/{name}"


@dataclass(frozen=True)
class OpenApi:
    """Handler of the OpenAPI document."""

    base_url: str
    config: ConfigCache

    async def document(self, request: Request) -> Response:
        content = _encoded(self.base_url, self.config.settings.tts_max_chars)
        return Response(content, media_type=JSON.decode())


@lru_cache(maxsize=1)
def _encoded(base_url: str, tts_max_chars: int) -> bytes:
    """The document. It is generated again when the limit on a text has changed."""
    return msgspec.json.encode(describe(base_url, tts_max_chars))


def describe(base_url: str, tts_max_chars: int) -> dict[str, Any]:
    """The OpenAPI 3.1 document."""
    shapes = [shape for api in _APIS for one in api.operations.values() for shape in (one.body, one.answer)]
    shapes += [api.envelope for api in _APIS]
    structs = [struct for shape in shapes for struct in _structs(shape)]
    _, schemas = msgspec.json.schema_components(structs, ref_template=_REF)
    limit_fields(schemas, tts_max_chars)
    paths: dict[str, Any] = {}
    for api in _APIS:
        for endpoint, one in api.operations.items():
            method, _, path = endpoint.partition(" ")
            methods = paths.setdefault(path, {} if api is V1 else {"servers": [{"url": base_url}]})
            methods[method.lower()] = _operation(api, method, path, one)
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


def _operation(api: Api, method: str, path: str, one: Operation) -> dict[str, Any]:
    is_charged = api.is_charged and method == "POST"
    parameters, headers, errors = (*api.parameters, *one.parameters), one.headers, {*api.errors, *one.errors}
    limits = RETRY
    if is_charged:
        parameters = (*parameters, IDEMPOTENCY)
        headers = UNITS | RATE | api.charged_headers | headers
        errors |= {*api.charged_errors}
        limits = RETRY | RATE
    success = _answer("success", one.answer, headers)
    if one.streams:
        success["content"]["text/event-stream"] = {"schema": {"type": "string"}}
    about = f"Needs the {one.scope} scope." if one.scope else "Needs no scope."
    operation: dict[str, Any] = {
        "operationId": re.sub(r"\W+", "_", method.lower() + path).strip("_"),
        "summary": one.summary,
        "description": f"{one.summary}. {'For compute nodes.' if api is FARM else about}",
        "parameters": list(parameters),
        "responses": {"200": success},
    }
    for status in sorted(errors):
        described = _answer(api.causes[status], api.envelope, limits if status == "429" else {})
        operation["responses"][status] = described
    if one.body or one.form:
        content = {"multipart/form-data": {"schema": one.form}} if one.form else _content(one.body)
        operation["requestBody"] = {"required": True, "content": content}
    if api is FARM:
        operation["security"] = [] if path.endswith("/join") else [{"node": []}]
    return operation


def _answer(description: str, shape: Any, headers: dict[str, Any]) -> dict[str, Any]:
    headers = {"X-Request-Id": {"schema": {"type": "string"}}} | headers
    return {"description": description, "headers": headers, "content": _content(shape)}


def _content(shape: Any) -> dict[str, Any]:
    if shape is AUDIO:
        sound = {"schema": {"type": "string", "format": "binary"}}
        return {"audio/*": sound, "application/octet-stream": sound}  # generators know no range of types
    if shape is OBJECT:
        return {"application/json": {"schema": {"type": "object"}}}
    refs = [{"$ref": _REF.format(name=struct.__name__)} for struct in _structs(shape)]
    return {"application/json": {"schema": refs[0] if len(refs) == 1 else {"oneOf": refs}}}


def _structs(shape: Any) -> tuple[Any, ...]:
    """The structs of a shape, which may be one of several."""
    return () if shape is None or shape is AUDIO or shape is OBJECT else get_args(shape) or (shape,)

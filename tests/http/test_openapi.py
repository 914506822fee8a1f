"""/openapi.json documents every route of the service, with its limits and its errors."""

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from myna.wire import farm
from tests.http.conftest import Edge
from tests.rig.calls import call
from tests.rig.service import Service

GETS = ("/me", "/models", "/voices", "/task", "/records")
POSTS = ("/chat/completions", "/tts")
OPENAI_GETS = ("/models", "/models/{id}", "/responses/{id}", "/audio/voices")
OPENAI_POSTS = (
    "/chat/completions", "/responses", "/completions", "/embeddings", "/audio/speech",
    "/audio/transcriptions", "/audio/translations",
)  # fmt: skip
OF_NODES = ("join", "hello", "lease", "beat", "reference", "complete", "fail")


def document(service: Service) -> dict[str, Any]:
    found: dict[str, Any] = call("GET", f"{service.root_url}/openapi.json").json
    return found


@pytest.fixture(scope="module")
def described(edge: Edge) -> dict[str, Any]:
    return document(edge.service)


def operations(described: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for path, methods in described["paths"].items():
        for method, operation in methods.items():
            if method != "servers":
                yield path, operation


def members(value: Any) -> Iterator[dict[str, Any]]:
    """All objects of the document."""
    if isinstance(value, dict):
        yield value
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from members(inner)


def test_every_operation_documents_its_errors(described: dict[str, Any]) -> None:
    for path, operation in operations(described):
        statuses = set(operation["responses"])
        assert {"200", "401", "500", "503"} <= statuses, path
        if path.startswith(farm.PREFIX):
            assert {"400", "426"} <= statuses
            assert "429" not in statuses
            continue
        assert "429" in statuses
        if path in POSTS or path.removeprefix("/openai/v1") in OPENAI_POSTS:
            assert {"400", "402", "413"} <= statuses
    assert "409" in described["paths"][f"{farm.PREFIX}/complete"]["post"]["responses"]


def test_every_path_is_documented_and_exists(described: dict[str, Any], edge: Edge) -> None:
    prefixed = {f"{farm.PREFIX}/{name}" for name in OF_NODES}
    openai = {f"/openai/v1{path}": "GET" for path in OPENAI_GETS}
    openai |= {f"/openai/v1{path}": "POST" for path in OPENAI_POSTS}
    assert set(described["paths"]) == {*GETS, *POSTS, *prefixed, *openai}
    assert described["paths"]["/openai/v1/responses/{id}"].keys() == {"servers", "get", "delete"}
    for path, method in openai.items():
        (server,) = described["paths"][path]["servers"]
        answer = call(method, server["url"] + path)
        assert answer.status == 401 and answer.json["error"]["code"] == "invalid_api_key", path
    for path in prefixed:
        (server,) = described["paths"][path]["servers"]
        assert server["url"] == edge.service.root_url
        method = "GET" if "get" in described["paths"][path] else "POST"
        assert call(method, server["url"] + path).status == 426
    for path in (*GETS, *POSTS):
        method = "GET" if path in GETS else "POST"
        assert call(method, described["servers"][0]["url"] + path).status == 401


def test_every_reference_is_to_an_existing_schema(described: dict[str, Any]) -> None:
    text = msgspec.json.encode(described).decode()
    names = {part.split('"')[0] for part in text.split('"$ref":"#/components/schemas/')[1:]}
    assert names <= set(described["components"]["schemas"])
    assert {"Lease", "Leased", "Joined", "ChatRequest", "ErrorAnswer"} <= names

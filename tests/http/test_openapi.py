"""/openapi.json documents every route of the service, with its limits and its errors."""

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from myna.wire import farm
from tests.http.conftest import Edge
from tests.rig.calls import call

V1 = (
    "GET /me", "GET /models", "GET /voices", "GET /task", "GET /records",
    "POST /chat/completions", "POST /tts",
)  # fmt: skip
OPENAI = (
    "GET /models", "GET /models/{id}", "GET /responses/{id}", "DELETE /responses/{id}", "GET /audio/voices",
    "POST /chat/completions", "POST /responses", "POST /completions", "POST /embeddings",
    "POST /audio/speech", "POST /audio/transcriptions", "POST /audio/translations",
)  # fmt: skip
OF_NODES = (
    "POST /join", "POST /hello", "POST /lease", "POST /beat", "GET /reference",
    "POST /complete", "POST /fail",
)  # fmt: skip


@pytest.fixture(scope="module")
def described(edge: Edge) -> dict[str, Any]:
    found: dict[str, Any] = call("GET", f"{edge.service.root_url}/openapi.json").json
    return found


def operations(described: dict[str, Any]) -> Iterator[tuple[str, str, str, dict[str, Any]]]:
    """The server, method and path of each operation, and the operation."""
    for path, methods in described["paths"].items():
        (server,) = methods.get("servers", described["servers"])
        for method, operation in methods.items():
            if method != "servers":
                yield server["url"], method.upper(), path, operation


def test_every_operation_documents_its_errors(described: dict[str, Any]) -> None:
    for _, method, path, operation in operations(described):
        statuses = set(operation["responses"])
        assert {"200", "401", "500", "503"} <= statuses, path
        of_node = path.startswith(farm.PREFIX)
        assert ("429" in statuses, "426" in statuses) == (not of_node, of_node), path
        if method == "POST" and not of_node:
            assert {"400", "402", "413"} <= statuses, path
    assert "409" in described["paths"][f"{farm.PREFIX}/complete"]["post"]["responses"]


def test_every_path_is_documented_and_exists(described: dict[str, Any], edge: Edge) -> None:
    root, found = edge.service.root_url, set()
    for server, method, path, _ in operations(described):
        found.add(f"{method} {server}{path}")
        answer = call(method, server + path)
        assert answer.status == (426 if path.startswith(farm.PREFIX) else 401), path
        if path.startswith("/openai/v1"):
            assert answer.json["error"]["code"] == "invalid_api_key", path
    below = {f"{root}/v1": V1, f"{root}/openai/v1": OPENAI, root + farm.PREFIX: OF_NODES}
    assert found == {one.replace(" ", f" {url}") for url, known in below.items() for one in known}


def test_every_reference_is_to_an_existing_schema(described: dict[str, Any]) -> None:
    text = msgspec.json.encode(described).decode()
    names = {part.split('"')[0] for part in text.split('"$ref":"#/components/schemas/')[1:]}
    assert names <= set(described["components"]["schemas"])
    assert {"Lease", "Leased", "Joined", "ChatRequest", "ErrorAnswer"} <= names

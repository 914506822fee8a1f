"""/openapi.json: every route of the service is in it, with its limits and each error that it may answer."""

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from myna.wire import farm
from tests.http.conftest import Door
from tests.rig.calls import call
from tests.rig.service import Service

GETS = ("/me", "/models", "/voices", "/task", "/records")
POSTS = ("/chat/completions", "/tts")
OF_NODES = ("join", "hello", "lease", "beat", "reference", "complete", "fail")


def document(service: Service) -> dict[str, Any]:
    found: dict[str, Any] = call("GET", f"{service.root_url}/openapi.json").json
    return found


@pytest.fixture(scope="module")
def described(door: Door) -> dict[str, Any]:
    return document(door.service)


def operations(described: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for path, methods in described["paths"].items():
        for method, operation in methods.items():
            if method != "servers":
                yield path, operation


def test_every_operation_tells_its_errors(described: dict[str, Any]) -> None:
    for path, operation in operations(described):
        statuses = set(operation["responses"])
        assert {"200", "401", "500", "503"} <= statuses, path
        if path.startswith(farm.PREFIX):
            assert {"400", "426"} <= statuses
        elif path in POSTS:
            assert {"400", "402", "413"} <= statuses
    assert "409" in described["paths"][f"{farm.PREFIX}/complete"]["post"]["responses"]


def test_every_path_is_there_and_answers_as_described(described: dict[str, Any], door: Door) -> None:
    prefixed = {f"{farm.PREFIX}/{name}" for name in OF_NODES}
    assert set(described["paths"]) == {*GETS, *POSTS, *prefixed}
    for path in prefixed:
        (server,) = described["paths"][path]["servers"]
        assert server["url"] == door.service.root_url
        method = "GET" if "get" in described["paths"][path] else "POST"
        assert call(method, server["url"] + path).status == 426
    for path in (*GETS, *POSTS):
        method = "GET" if path in GETS else "POST"
        assert call(method, described["servers"][0]["url"] + path).status == 401


def test_every_reference_is_to_a_schema_that_is_there(described: dict[str, Any]) -> None:
    text = msgspec.json.encode(described).decode()
    names = {part.split('"')[0] for part in text.split('"$ref":"#/components/schemas/')[1:]}
    assert names <= set(described["components"]["schemas"])
    assert {"Lease", "Leased", "Joined", "ChatRequest", "ErrorAnswer"} <= names


def test_headers_of_an_answer_are_told(described: dict[str, Any]) -> None:
    headers = {
        path: set(operation["responses"]["200"]["headers"]) - {"X-Request-Id"}
        for path, operation in operations(described)
    }
    units = {"X-Units-Cost", "X-Units-Balance"}
    told = {"/me": units, "/chat/completions": units, "/tts": {*units, "X-Ignored-Fields"}}
    assert {path: names for path, names in headers.items() if names} == told


def test_limits_are_told(described: dict[str, Any]) -> None:
    schemas = described["components"]["schemas"]
    assert schemas["ChatRequest"]["properties"]["messages"]["minItems"] == 1
    text = schemas["SpeechRequest"]["properties"]["text"]
    assert (text["minLength"], text["maxLength"]) == (1, 1000)
    speed = schemas["SpeechRequest"]["properties"]["speed"]
    assert "0.25 to 4.0" in speed["description"]
    assert speed["pattern"].startswith("^")


def test_a_changed_limit_on_a_text_is_told(door: Door) -> None:
    service = door.service
    service.cli("settings", "set", "tts_max_chars", "50")
    try:
        assert (
            call("GET", f"{service.base_url}/models", key=door.key).status == 200
        )  # which looks at the site
        text = document(service)["components"]["schemas"]["SpeechRequest"]["properties"]["text"]
        assert text["maxLength"] == 50
    finally:
        service.cli("settings", "set", "tts_max_chars", "1000")
        assert call("GET", f"{service.base_url}/models", key=door.key).status == 200

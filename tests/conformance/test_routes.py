"""/openai/v1 beside chat: routes of the operator, models, completions, embeddings."""

import base64
import json
import struct
from collections.abc import Iterator
from http import HTTPStatus
from typing import Any

import pytest

from myna.channels.circuits import FAILURES_MAX
from tests.conformance.caller import COPY_WAIT_S, REFUNDED, UNCHARGED, Caller, Stats
from tests.rig.calls import Answer, EventReader, call
from tests.rig.service import Service
from tests.rig.upstream import Upstream
from tests.rig.waiting import wait_until

ROUTES = (
    "gpt-4o --channel default --upstream-model a-large-model --units 5",
    "org/small --channel default --units 0",
    "gpt-* --channel default --units 2",
    "vectors --channel default --upstream-model embedder --units 3 --kind embeddings",
    "reads-aloud --channel default --units 1 --intent",
    "of-4096-tokens --channel default --upstream-model m --units 1",
)


@pytest.fixture(scope="module", autouse=True)
def routes(service: Service) -> Iterator[None]:
    for route in ROUTES:
        service.cli("route", "add", *route.split())
    yield
    for route in ROUTES:
        service.cli("route", "remove", route.split()[0])


def send(caller: Caller, method: str, path: str, data: Any = None, headers: Any = None) -> Answer:
    url = f"{caller.service.root_url}/openai/v1{path}"
    return call(method, url, key=caller.key.plain, data=data, headers=headers)


def chat(caller: Caller, model: str, text: str = "hello") -> Answer:
    data = {"model": model, "messages": [{"role": "user", "content": text}]}
    return send(caller, "POST", "/chat/completions", data)


PRICES = [
    ("gpt-4o", "a-large-model", 5),
    ("gpt-4o-mini", "gpt-4o-mini", 2),
    ("org/small", "upstream-model", 0),
    ("svc-agent", "upstream-model", 1),
]


def test_a_model_is_a_route_with_its_price(fresh_caller: Caller, chat_upstream: Upstream) -> None:
    for model, asked, units in PRICES:
        answer = chat(fresh_caller, model)
        assert answer.status == HTTPStatus.OK
        assert answer.headers["x-units-cost"] == str(units)
        assert chat_upstream.requests[-1].json["model"] == asked
    assert fresh_caller.stats() == Stats(calls=4, cost=8, ok_calls=4)


def test_a_model_without_a_route_of_its_kind_is_404(fresh_caller: Caller) -> None:
    for model in ("unknown", "vectors", "tts-1", "gpt-*", "", "*"):
        answer = chat(fresh_caller, model)
        error = answer.json["error"]
        assert (answer.status, error["code"]) == (HTTPStatus.NOT_FOUND, "model_not_found")
        says_kind = {"vectors": "is a model for embeddings", "tts-1": "is a model for speech"}.get(model)
        assert (says_kind or "there is no model") in error["message"]
    assert fresh_caller.stats() == UNCHARGED


def test_a_model_that_the_channel_does_not_have_is_404_if_the_caller_chose_it_and_opens_no_circuit(
    service: Service, fresh_caller: Caller
) -> None:
    def counted() -> list[float]:
        """Refusals of the channel, and how often its circuit opened."""
        refusals = r'myna_upstream_failures_total\{.*fault="Status404"\}'
        return service.counted(refusals, r"myna_channel_circuit_opened_total\{.*\}")

    refused, opened = counted()
    for number in range(2 * FAILURES_MAX):
        messages = [{"role": "user", "content": "fault=status:404"}]
        data = {"model": "gpt-unknown", "messages": messages, "stream": bool(number % 2)}
        answer = send(fresh_caller, "POST", "/chat/completions", data)
        assert (answer.status, answer.json["error"]["code"]) == (HTTPStatus.NOT_FOUND, "model_not_found")
    for _ in range(FAILURES_MAX):  # the operator's model: the caller can't help it
        answer = chat(fresh_caller, "gpt-4o", "fault=status:404")
        assert answer.status == 500 and "Tell the operator" in answer.json["error"]["message"]
        assert answer.headers["x-should-retry"] == "false"
    wait_until(lambda: counted()[0] == refused + 3 * FAILURES_MAX, COPY_WAIT_S, "the metrics are copied")
    assert counted()[1] == opened


def test_models_are_listed_without_wildcards(service: Service, fresh_caller: Caller) -> None:
    service.cli("settings", "set", "context_lengths", "gpt-*=9000, svc-chat=8192")
    wildcard = send(fresh_caller, "GET", "/models/gpt-of-a-wildcard").json
    listed = send(fresh_caller, "GET", "/models").json
    names = [model["id"] for model in listed["data"]]
    assert names[:3] == ["svc-chat", "svc-agent", "tts-1"]
    assert "whisper-1" not in names  # the model is not installed
    assert {"gpt-4o", "org/small", "vectors"} <= set(names) and "gpt-*" not in names
    shown = {model["id"]: (model["kind"], model["units"]) for model in listed["data"]}
    lengths = {one["id"]: one["context_length"] for one in listed["data"] if "context_length" in one}
    assert lengths == {"of-4096-tokens": 4096, "svc-chat": 8192} and wildcard["context_length"] == 9000
    assert shown["svc-chat"] == ("chat", 1) and shown["vectors"][0] == "embeddings"
    for name in ("svc-chat", "org/small", "gpt-of-a-wildcard"):
        assert send(fresh_caller, "GET", f"/models/{name}").json["id"] == name
    for path in ("/models/", "//models"):
        assert send(fresh_caller, "GET", path).json == listed
    service.cli("settings", "set", "context_lengths", "")
    head = send(fresh_caller, "HEAD", "/models")
    assert (head.status, head.body) == (HTTPStatus.OK, b"") and int(head.headers["content-length"]) > 100
    assert send(fresh_caller, "GET", "/models/org%2Fsmall").json["id"] == "org/small"
    missing = send(fresh_caller, "GET", "/models/none")
    assert (missing.status, missing.json["error"]["code"]) == (HTTPStatus.NOT_FOUND, "model_not_found")
    assert send(fresh_caller, "POST", "/models/none", {}).status == HTTPStatus.METHOD_NOT_ALLOWED


def test_a_key_limited_to_routes_sees_and_uses_only_these(service: Service, fresh_caller: Caller) -> None:
    options = "--name limited --route gpt-* --route svc-chat"
    issued = service.cli("key", "issue", fresh_caller.account.name, *options.split())
    for model, status in (("gpt-x", 200), ("svc-chat", 200), ("org/small", 404), ("vectors", 404)):
        data = {"model": model, "messages": [{"role": "user", "content": "hello"}]}
        answer = call("POST", f"{service.root_url}/openai/v1/chat/completions", key=issued["key"], data=data)
        assert answer.status == status, answer
        if status == 404:
            assert answer.json["error"]["code"] == "model_not_found"
            assert repr(model) in answer.json["error"]["message"]
    listed = call("GET", f"{service.root_url}/openai/v1/models", key=issued["key"]).json
    assert [model["id"] for model in listed["data"]] == ["svc-chat"]


@pytest.mark.parametrize("encoding", [None, "float", "base64"])
def test_embeddings_pass_through(fresh_caller: Caller, chat_upstream: Upstream, encoding: str | None) -> None:
    for given in ("a text", ["two", "texts"], [1, 2, 3], [[1, 2], [3]]):
        data = {"model": "vectors", "input": given} | ({"encoding_format": encoding} if encoding else {})
        answer = send(fresh_caller, "POST", "/embeddings", data)
        assert answer.status == HTTPStatus.OK and answer.headers["x-units-cost"] == "3"
        sent = chat_upstream.requests[-1]
        assert sent.path.endswith("/v1/embeddings") and sent.json == data | {"model": "embedder"}
        assert isinstance(answer.json["data"][0]["embedding"], str if encoding == "base64" else list)


def test_vectors_asked_in_base64_are_encoded_if_the_channel_answers_lists(
    fresh_caller: Caller, chat_upstream: Upstream
) -> None:
    chat_upstream.behave("floats")
    for count in (1, 9000):
        data = {"model": "vectors", "input": ["x"] * count, "encoding_format": "base64"}
        answer = send(fresh_caller, "POST", "/embeddings", data)
        assert answer.status == HTTPStatus.OK and len(answer.json["data"]) == count
        for item in answer.json["data"]:
            assert struct.unpack("<3f", base64.b64decode(item["embedding"])) == (0.25, -0.5, 1.0)


ENCODED = base64.b64encode(struct.pack("<3f", 0.25, -0.5, 1.0)).decode()
ODD_VECTORS: list[list[dict[str, Any]]] = [
    [{"embedding": ENCODED}, {"embedding": [1, 2]}],
    [{"object": "embedding", "index": 0, "embedding": [0.25, -0.5, 1]}, {"embedding": [1, 2], "index": None}],
]


@pytest.mark.parametrize("data", ODD_VECTORS)
def test_vectors_are_as_they_were_asked_for_with_what_clients_need(
    fresh_caller: Caller, chat_upstream: Upstream, data: list[dict[str, Any]]
) -> None:
    chat_upstream.behave("error:200,0 " + json.dumps({"data": data}))
    for encoding, vectors in (("float", [[0.25, -0.5, 1.0], [1, 2]]), ("base64", [ENCODED, "AACAPwAAAEA="])):
        asked = {"model": "vectors", "input": ["春", "x"], "encoding_format": encoding}
        answer = send(fresh_caller, "POST", "/embeddings", asked).json
        assert answer["data"] == [
            {"object": "embedding", "index": place, "embedding": vector}
            for place, vector in enumerate(vectors)
        ]
        assert (answer["object"], answer["model"]) == ("list", "vectors")
        assert answer["usage"] == {"prompt_tokens": 1, "total_tokens": 1}


def test_embeddings_have_a_limit_of_their_own_which_the_error_names(
    fresh_caller: Caller, chat_upstream: Upstream
) -> None:
    chat_upstream.behave("vectors:3072")
    data = {"model": "vectors", "input": ["a"] * 1000, "encoding_format": "base64"}
    answer = send(fresh_caller, "POST", "/embeddings", data)
    assert answer.status == 200 and len(answer.json["data"]) == 1000 and len(answer.body) > 16_000_000
    chat_upstream.behave("oversized")
    answer = send(fresh_caller, "POST", "/embeddings", data)
    assert answer.status == 500 and f"{64 * 2**20} bytes" in answer.json["error"]["message"]
    assert answer.headers["x-should-retry"] == "false"
    answer = chat(fresh_caller, "gpt-4o")
    assert answer.status == 500 and f"{8 * 2**20} bytes" in answer.json["error"]["message"]


def test_embeddings_without_vectors_are_refunded(fresh_caller: Caller) -> None:
    answer = send(fresh_caller, "POST", "/embeddings", {"model": "vectors", "input": "fault=not-chat"})
    assert answer.status == HTTPStatus.INTERNAL_SERVER_ERROR
    assert fresh_caller.stats() == REFUNDED


def test_completions_pass_through_whole_and_streamed(fresh_caller: Caller, chat_upstream: Upstream) -> None:
    answer = send(fresh_caller, "POST", "/completions", {"model": "gpt-4o", "prompt": "Once upon"})
    assert answer.json["choices"][0]["text"] == "Once upon"
    assert chat_upstream.requests[-1].path.endswith("/v1/completions")
    body = {"model": "svc-chat", "prompt": "fault=whole Once", "stream": True}
    url = f"{fresh_caller.service.root_url}/openai/v1/completions"
    with EventReader(url, fresh_caller.key.plain, body).rest() as streamed:
        assert streamed.is_done and streamed.chunks[0]["choices"][0]["text"] == "fault=whole Once"


def test_each_prompt_is_charged(fresh_caller: Caller) -> None:
    answer = send(fresh_caller, "POST", "/completions", {"model": "svc-chat", "prompt": ["a", "b"], "n": 2})
    assert answer.headers["x-units-cost"] == "4"
    tokens = send(fresh_caller, "POST", "/completions", {"model": "svc-chat", "prompt": [1, 2, 3]})
    assert tokens.headers["x-units-cost"] == "1"
    refused = send(fresh_caller, "POST", "/completions", {"model": "svc-chat", "prompt": "a", "best_of": 5})
    assert (refused.status, refused.json["error"]["param"]) == (HTTPStatus.BAD_REQUEST, "best_of")


@pytest.mark.parametrize("streams", [False, True])
def test_a_route_with_intent_speaks(service: Service, fresh_caller: Caller, streams: bool) -> None:
    data = {
        "model": "reads-aloud",
        "stream": streams,
        "messages": [{"role": "user", "content": "请朗读：春眠不觉晓"}],
    }
    url = f"{service.root_url}/openai/v1/chat/completions"
    copies = set()
    for _ in range(2):  # the second one gets the stored answer
        with EventReader(url, fresh_caller.key.plain, data, {"Idempotency-Key": "spoken"}).rest() as answer:
            assert answer.status == HTTPStatus.OK, answer.raw
            assert b"/uploads/" in answer.raw and b"reads-aloud" in answer.raw
            assert answer.is_done is streams
            copies.add(answer.raw)
    assert len(copies) == 1
    unspoken = chat(fresh_caller, "svc-chat", "请朗读：春眠").json["choices"][0]["message"]
    assert unspoken["content"][:3] == "请朗读"

"""openai-node and the AI SDK: whole answers, streams, tools and structured output."""

import base64
import json
from collections.abc import Iterator, Mapping
from typing import Any

import openai
import pytest

from myna.engines.audio.encoders import FORMATS, RATE_HZ
from myna.wire.openai import SpeechFormat
from tests.audio.test_encoders import heard
from tests.openai_audio.transcription_upstream import TranscriptionUpstream
from tests.rig.clients import CLIENTS, NodeJsClient
from tests.rig.models import Llm
from tests.rig.service import RunningService, Service

pytestmark = [pytest.mark.slow, pytest.mark.clients]
HELLO = "hello 世界"


def returned(script: str, node_client: NodeJsClient, env: Mapping[str, str]) -> dict[str, Any]:
    source = (CLIENTS / script).read_text(encoding="utf-8")
    found = json.loads(node_client.execute(source, env))
    assert isinstance(found, dict)
    return found


@pytest.fixture(scope="session")
def openai_node(node_client: NodeJsClient, client_env: Mapping[str, str]) -> dict[str, Any]:
    """What each way of `openai.mjs` returned."""
    return returned("openai.mjs", node_client, client_env)


@pytest.fixture(scope="session")
def ai_sdk(node_client: NodeJsClient, client_env: Mapping[str, str]) -> dict[str, Any]:
    """What each way of `ai_sdk.mjs` returned, by API."""
    return returned("ai_sdk.mjs", node_client, client_env)


def test_openai_node_lists_the_models(openai_node: dict[str, Any]) -> None:
    assert {"svc-agent", "svc-chat"} <= set(openai_node["models"])


CALL = {"name": "weather", "arguments": '{"city":"Oslo"}'}


@pytest.mark.parametrize(
    ("way", "answer"),
    [
        ("chat", {"text": HELLO, "total": 33}),
        ("chatStream", {"text": HELLO, "total": 33}),
        ("chatTools", "It rains."),
        ("chatFormat", {"city": "Oslo"}),
        ("responses", {"text": HELLO, "status": "completed", "total": 33}),
        ("responsesStream", {"text": HELLO, "deltas": HELLO, "status": "completed"}),
        ("responsesTools", CALL | {"text": "It rains."}),
        ("responsesFormat", {"city": "Oslo"}),
        ("embeddings", [0.25, -0.5, 1.0]),
    ],
)
def test_openai_node_gets_an_answer(openai_node: dict[str, Any], way: str, answer: Any) -> None:
    assert openai_node[way] == answer


@pytest.mark.parametrize(("way", "kind"), [("speech", "mp3"), ("speechStream", "wav")])
def test_openai_node_gets_speech(openai_node: dict[str, Any], way: str, kind: SpeechFormat) -> None:
    answer = openai_node[way]
    assert answer["type"] == FORMATS[kind].media_type.decode()
    assert len(heard(base64.b64decode(answer["sound"]), kind)) > 0.3 * RATE_HZ


def test_openai_node_gets_a_transcript(
    openai_node: dict[str, Any], transcription_upstream: TranscriptionUpstream
) -> None:
    assert openai_node["transcription"] == "heard elsewhere"
    (received,) = transcription_upstream.received
    assert (received.path, received.file_name) == ("/v1/audio/transcriptions", "said.wav")
    assert received.fields["language"] == b"en"
    assert received.fields["file"] == b"RIFF of a recording"


def test_openai_node_names_the_field_that_a_stateless_service_refuses(openai_node: dict[str, Any]) -> None:
    error = openai_node["stored"]["error"]
    assert (error["class"], error["status"], error["param"]) == ("BadRequestError", 400, "store")


@pytest.mark.parametrize("api", ["responses", "chat"])
def test_the_ai_sdk_works_by_each_api(ai_sdk: dict[str, Any], api: str) -> None:
    by = ai_sdk[api]
    assert by["text"] == HELLO
    assert by["stream"] == {"text": HELLO, "finishReason": "stop", "steps": 1, "total": 33}
    assert by["tools"]["text"] == "It rains in Oslo."
    assert by["tools"]["steps"] == 2
    assert by["object"] == {"city": "Oslo"}
    assert by["conversation"] == "again"


def test_the_ai_sdk_shows_how_to_have_a_conversation_without_stored_answers(ai_sdk: dict[str, Any]) -> None:
    assert "store: false" in ai_sdk["responses"]["storedConversation"]["error"]
    assert ai_sdk["chat"]["storedConversation"] == "again"


MESSAGES: Any = [{"role": "user", "content": "What do you do?"}]
MODEL = "svc-chat"
UNITS = 100


@pytest.fixture(scope="module")
def service_with_model(llm: Llm, running_service: RunningService) -> Iterator[Service]:
    with running_service(chat_url=llm.url, chat_key=llm.key, chat_model="tiny") as running:
        yield running
        assert running.command("audit", "--json").code == 0


@pytest.fixture
def model(service_with_model: Service) -> Iterator[openai.OpenAI]:
    """A client whose account has UNITS units."""
    key = service_with_model.account(units=UNITS).key().plain
    url = f"{service_with_model.root_url}/openai/v1"
    with openai.OpenAI(base_url=url, api_key=key, max_retries=0) as made:
        yield made


def test_a_model_streams_its_words_as_it_finds_them(model: openai.OpenAI, llm: Llm) -> None:
    with model.chat.completions.with_streaming_response.create(
        model=MODEL, messages=MESSAGES, temperature=0, stream=True, stream_options={"include_usage": True}
    ) as raw:
        assert (raw.headers["x-units-cost"], raw.headers["x-myna-channel"]) == ("1", "default")
        assert int(raw.headers["x-units-balance"]) == UNITS - 1
        chunks = list(raw.parse())
    deltas = [each.choices[0].delta.content for each in chunks if each.choices]
    words = [delta for delta in deltas if delta]
    assert "".join(words) == llm.sentence
    assert len(words) > 3  # not one chunk with all
    assert [each.choices[0].finish_reason for each in chunks if each.choices][-1] == "stop"
    usage = chunks[-1].usage
    assert usage is not None
    assert usage.total_tokens == usage.prompt_tokens + usage.completion_tokens
    assert usage.completion_tokens >= len(words)  # the model's own count


def test_a_model_that_stops_at_a_limit_says_so(model: openai.OpenAI, llm: Llm) -> None:
    stream = model.chat.completions.create(
        model=MODEL, messages=MESSAGES, temperature=0, max_tokens=2, stream=True
    )
    chunks = [each.choices[0] for each in stream if each.choices]
    text = "".join(each.delta.content or "" for each in chunks)
    assert text
    assert llm.sentence.startswith(text)
    assert chunks[-1].finish_reason == "length"


def test_a_model_streams_a_response(model: openai.OpenAI, llm: Llm) -> None:
    with model.responses.stream(model=MODEL, input="What do you do?", temperature=0) as stream:
        deltas = [event.delta for event in stream if event.type == "response.output_text.delta"]
        response = stream.get_final_response()
    assert "".join(deltas) == response.output_text == llm.sentence
    assert len(deltas) > 3
    assert response.usage is not None
    assert response.usage.output_tokens > 3

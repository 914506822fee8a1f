"""A real language model behind `/openai/v1`: llama.cpp's server, by openai-python."""

from collections.abc import Iterator
from typing import Any

import openai
import pytest

from tests.rig.commands import CommandLine
from tests.rig.llm import Llm
from tests.rig.service import Service

pytestmark = [pytest.mark.slow, pytest.mark.clients]
MESSAGES: Any = [{"role": "user", "content": "What do you do?"}]
MODEL = "svc-chat"
UNITS = 100


@pytest.fixture(scope="module")
def service_with_model(
    llm: Llm, commands: CommandLine, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Service]:
    running = Service(
        tmp_path_factory.mktemp("service"),
        commands,
        chat_url=llm.url,
        chat_key=llm.key,
        chat_model="tiny",
        speech="none",
    ).start()
    yield running
    assert running.command("audit", "--json").code == 0
    assert running.stop() == 0


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

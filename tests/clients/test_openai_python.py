"""openai-python: whole answers, streams, tools, structured output and errors."""

from collections.abc import Iterator, Mapping
from typing import Any

import openai
import pytest
from openai.types.responses import ResponseFunctionToolCall
from pydantic import BaseModel

HELLO = "hello 世界"
CALL_WEATHER = 'fault=tool:{"city":"Oslo"}'
SAY_PLACE = 'fault=say:{"city":"Oslo"}'
CITY = {"type": "object", "properties": {"city": {"type": "string"}}}
MODEL = "svc-chat"


class Place(BaseModel):
    """The structured output of these tests."""

    city: str


@pytest.fixture
def client(client_env: Mapping[str, str]) -> Iterator[openai.OpenAI]:
    base_url, key = client_env["OPENAI_BASE_URL"], client_env["OPENAI_API_KEY"]
    with openai.OpenAI(base_url=base_url, api_key=key, max_retries=0) as made:
        yield made


def user(text: str) -> Any:
    return [{"role": "user", "content": text}]


def test_the_client_lists_the_models(client: openai.OpenAI) -> None:
    assert {"svc-agent", "svc-chat"} <= {model.id for model in client.models.list()}
    assert client.models.retrieve(MODEL).id == MODEL


def test_the_client_streams_a_chat(client: openai.OpenAI) -> None:
    with client.chat.completions.stream(
        model=MODEL, messages=user(HELLO), stream_options={"include_usage": True}
    ) as stream:
        deltas = [event.delta for event in stream if event.type == "content.delta"]
        completion = stream.get_final_completion()
    assert "".join(deltas) == completion.choices[0].message.content == HELLO
    assert completion.usage is not None
    assert completion.usage.total_tokens == 33


def test_the_client_calls_a_function_by_chat(client: openai.OpenAI) -> None:
    tools: Any = [{"type": "function", "function": {"name": "weather", "parameters": CITY}}]
    with client.chat.completions.stream(model=MODEL, messages=user(CALL_WEATHER), tools=tools) as stream:
        stream.until_done()
        message = stream.get_final_completion().choices[0].message
    (call,) = message.tool_calls or []
    assert (call.function.name, call.function.arguments) == ("weather", '{"city":"Oslo"}')
    result = {"role": "tool", "tool_call_id": call.id, "content": "It rains."}
    messages = [*user(CALL_WEATHER), message.model_dump(exclude_none=True), result]
    completion = client.chat.completions.create(model=MODEL, messages=messages, tools=tools)
    assert completion.choices[0].message.content == "It rains."


def test_the_client_streams_a_response(client: openai.OpenAI) -> None:
    with client.responses.stream(model=MODEL, input=HELLO) as stream:
        deltas = [event.delta for event in stream if event.type == "response.output_text.delta"]
        response = stream.get_final_response()
    assert "".join(deltas) == response.output_text == HELLO
    assert response.usage is not None
    assert response.usage.total_tokens == 33


def test_the_client_calls_a_function_by_responses(client: openai.OpenAI) -> None:
    tools: Any = [{"type": "function", "name": "weather", "parameters": CITY, "strict": False}]
    with client.responses.stream(model=MODEL, input=CALL_WEATHER, tools=tools) as stream:
        first = stream.get_final_response()
    (call,) = first.output
    assert isinstance(call, ResponseFunctionToolCall)
    assert (call.name, call.arguments) == ("weather", '{"city":"Oslo"}')
    output = {"type": "function_call_output", "call_id": call.call_id, "output": "It rains."}
    given: Any = [*user(CALL_WEATHER), *(item.to_dict() for item in first.output), output]
    assert client.responses.create(model=MODEL, input=given, tools=tools).output_text == "It rains."


def test_the_client_gets_structured_output(client: openai.OpenAI) -> None:
    completion = client.chat.completions.parse(model=MODEL, messages=user(SAY_PLACE), response_format=Place)
    assert completion.choices[0].message.parsed == Place(city="Oslo")
    response = client.responses.parse(model=MODEL, input=SAY_PLACE, text_format=Place)
    assert response.output_parsed == Place(city="Oslo")


def test_the_client_gets_embeddings_in_both_encodings(client: openai.OpenAI) -> None:
    by_default = client.embeddings.create(model="vectors", input=["a", "b"])
    as_floats = client.embeddings.create(model="vectors", input="a", encoding_format="float")
    assert [each.embedding for each in by_default.data] == [[0.25, -0.5, 1.0]] * 2
    assert as_floats.data[0].embedding == [0.25, -0.5, 1.0]


def test_the_client_names_the_field_that_a_stateless_service_refuses(client: openai.OpenAI) -> None:
    with pytest.raises(openai.BadRequestError) as refused:
        client.responses.create(model=MODEL, input="hello", store=True)
    assert refused.value.param == "store"
    assert "this service " in refused.value.message

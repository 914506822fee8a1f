"""The official clients, and a real language model server as the upstream."""

import importlib
from collections.abc import Callable
from typing import Any

import pytest

from tests.conformance.caller import DELIVERED, Caller, make_caller
from tests.conformance.conftest import CallerMaker
from tests.rig.clients import NodeJsClient
from tests.rig.models import Llm
from tests.rig.service import Service, ServiceMaker


@pytest.fixture(scope="session")
def openai() -> Any:
    """The package, imported when a test needs it."""
    return importlib.import_module("openai")


def test_the_python_client_lists_the_models_and_chats(openai: Any, caller: Caller) -> None:
    client = openai.OpenAI(base_url=caller.service.base_url, api_key=caller.key.plain, max_retries=0)
    listed = client.models.list()
    assert sorted(model.id for model in listed) == ["svc-agent", "svc-chat"]
    parts = [{"type": "text", "text": "hello"}]
    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": parts}]
    asked = {"model": "svc-chat", "messages": messages, "temperature": 0, "max_completion_tokens": 50}
    completion = client.chat.completions.create(**asked)
    client.close()
    assert completion.choices[0].message.content == "hello"
    assert completion.usage is not None
    assert completion.usage.total_tokens == 0


def test_the_python_client_raises_its_errors(openai: Any, caller: Caller, new_caller: CallerMaker) -> None:
    def ask(key: str, text: str = "hello") -> None:
        with openai.OpenAI(base_url=caller.service.base_url, api_key=key, max_retries=0) as client:
            client.chat.completions.create(model="svc-chat", messages=[{"role": "user", "content": text}])

    with pytest.raises(openai.AuthenticationError) as unauthorized:
        ask("myna_" + "0" * 40)
    assert unauthorized.value.type == "authentication_error"
    with pytest.raises(openai.APIStatusError) as poor:
        ask(new_caller(units=0).key.plain)
    assert (poor.value.status_code, poor.value.type) == (402, "insufficient_quota")
    with pytest.raises(openai.BadRequestError):
        ask(caller.key.plain, "")
    with pytest.raises(openai.InternalServerError) as failed:
        ask(caller.key.plain, "fault=status:429")
    assert failed.value.type == "upstream_error"


def test_the_python_client_retries_a_failure_and_pays_once(openai: Any, new_caller: CallerMaker) -> None:
    caller = new_caller()
    client = openai.OpenAI(base_url=caller.service.base_url, api_key=caller.key.plain, max_retries=1)
    with client, pytest.raises(openai.InternalServerError):
        client.chat.completions.create(
            model="svc-chat", messages=[{"role": "user", "content": "fault=status:500"}]
        )
    assert caller.stats().cost == 0
    assert caller.stats().calls == 2


@pytest.mark.clients
def test_the_node_client_lists_and_chats(node_client: NodeJsClient, new_caller: CallerMaker) -> None:
    caller = new_caller()
    printed = node_client.run(caller.service.base_url, caller.key.plain, "svc-chat", "hello 世界")
    assert sorted(model["id"] for model in printed["models"]) == ["svc-agent", "svc-chat"]
    assert printed["answer"]["choices"][0]["message"]["content"] == "hello 世界"
    assert printed["request_id"]
    assert caller.stats() == DELIVERED


@pytest.fixture
def llm_service(new_database: Callable[[], str | None], make_service: ServiceMaker, llm: Llm) -> Service:
    """A service with the language model server as its chat upstream."""
    return make_service(
        database_url=new_database(), chat_url=llm.url, chat_key=llm.key, chat_model="tiny"
    ).start()


@pytest.mark.slow
def test_a_real_language_model_answers_through_the_service(llm_service: Service, llm: Llm) -> None:
    caller = make_caller(llm_service)
    answer = caller.chat("你是谁？", temperature=0)
    assert answer.status == 200
    completion = answer.json
    assert completion["choices"][0]["message"] == {"role": "assistant", "content": llm.sentence}
    assert completion["choices"][0]["finish_reason"] == "stop"
    assert completion["usage"] == {"prompt_tokens": 3, "completion_tokens": 0, "total_tokens": 3}
    assert caller.chat("hello", temperature=0, stream=True).status == 200
    assert caller.chat("hello", temperature=0, max_tokens=2).json["choices"][0]["finish_reason"] == "length"
    assert caller.stats().ok_calls == 3

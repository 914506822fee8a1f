"""LangChain, pydantic-ai and LiteLLM's SDK by both APIs: streams, tools, structured output, conversations."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.clients.page import packages
from tests.rig.clients import INSTALL_DEADLINE_S, RUN_DEADLINE_S, installed, run
from tests.rig.upstream import Upstream

HERE = Path(__file__).parent
EVERYTHING = {"stream": "hello 世界", "tools": "It rains in Oslo.", "output": "Oslo", "conversation": "again"}

pytestmark = [pytest.mark.slow, pytest.mark.clients, pytest.mark.timeout(INSTALL_DEADLINE_S + RUN_DEADLINE_S)]


def returned(script: str, requirements: list[str], env: Mapping[str, str], folder: Path) -> Any:
    python = str(installed(requirements) / "python")
    return json.loads(run([python, str(HERE / script)], env, folder))


@pytest.mark.parametrize(
    ("client", "script"), [("LangChain", "calls_of_langchain.py"), ("pydantic-ai", "calls_of_pydantic_ai.py")]
)
def test_a_framework_works_by_each_api(
    client: str, script: str, client_env: Mapping[str, str], chat_upstream: Upstream, folder: Path
) -> None:
    requirements = list(packages()[client])
    assert returned(script, requirements, client_env, folder) == {"chat": EVERYTHING, "responses": EVERYTHING}


def test_litellm_uses_each_api(client_env: Mapping[str, str], chat_upstream: Upstream, folder: Path) -> None:
    requirements = [*packages()["LiteLLM's SDK"], "mcp"]
    found = returned("calls_of_litellm.py", requirements, client_env, folder)
    assert found == {"chat": "hello 世界", "responses": "hello 世界", "responses_stream": "hello 世界"}

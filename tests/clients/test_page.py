"""Every example of docs/clients.md streams an answer, with the versions of the page's table."""

import importlib.metadata
import json
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.clients.page import Example, examples, packages
from tests.rig.node_client import CLIENTS, NodeJsClient
from tests.rig.python_clients import INSTALL_DEADLINE_S, RUN_DEADLINE_S, installed, run
from tests.rig.upstream import Upstream

SAID = "Say hello."
FAULTS = {"instructor": 'tool:{"city":"Sydney"}'}
"""What the upstream does where an echo is no answer."""
SAID_BY = {"instructor": "Sydney"}
MORE = {"shell-gpt": ["click"]}
"""Packages that a client needs and doesn't install, as the page says."""
QUICK = ("openai-python", "openai-node", "Vercel AI SDK")


def named(example: Example) -> str:
    return f"{example.client} {example.number}"


QUICK_EXAMPLES = [example for example in examples() if example.client in QUICK]
SLOW_EXAMPLES = [example for example in examples() if example.client not in QUICK]


def check(example: Example, printed: str, upstream: Upstream) -> None:
    assert SAID_BY.get(example.client, SAID) in printed
    assert [request.json["stream"] for request in upstream.requests] == [True]


def test_every_client_of_the_table_has_an_example() -> None:
    assert {example.client for example in examples()} == set(packages())


def test_the_clients_of_the_quick_tests_have_the_versions_of_the_table() -> None:
    locked = json.loads((CLIENTS / "package.json").read_text(encoding="utf-8"))["dependencies"]
    in_node = packages()["openai-node"] + packages()["Vercel AI SDK"]
    assert set(in_node) <= {f"{name}=={version}" for name, version in locked.items()}
    assert packages()["openai-python"] == (f"openai=={importlib.metadata.version('openai')}",)


@pytest.mark.parametrize("example", QUICK_EXAMPLES, ids=named)
def test_an_example_streams(
    example: Example,
    client_env: Mapping[str, str],
    chat_upstream: Upstream,
    node_client: NodeJsClient,
    folder: Path,
) -> None:
    if example.language == "js":
        printed = node_client.execute(example.text, client_env)
    else:
        printed = run([sys.executable, "-W", "error", "-c", example.text], client_env, folder)
    check(example, printed, chat_upstream)


@pytest.mark.slow
@pytest.mark.timeout(INSTALL_DEADLINE_S + RUN_DEADLINE_S)
@pytest.mark.parametrize("example", SLOW_EXAMPLES, ids=named)
def test_an_example_of_another_client_streams(
    example: Example, client_env: Mapping[str, str], chat_upstream: Upstream, folder: Path
) -> None:
    chat_upstream.behave(FAULTS.get(example.client, "echo"))
    programs = installed([*example.packages, *MORE.get(example.client, [])])
    env = {**client_env, "PATH": f"{programs}:{client_env['PATH']}"}
    if example.language == "python":
        printed = run([str(programs / "python"), "-c", example.text], env, folder)
    else:
        printed = run(["bash", "-ec", example.text], env, folder)
    check(example, printed, chat_upstream)

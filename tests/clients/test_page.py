"""Every example of docs/clients.md streams an answer, with the versions of the page's table."""

import importlib.metadata
import json
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.clients.page import Example, examples, packages
from tests.rig.clients import CLIENTS, INSTALL_DEADLINE_S, RUN_DEADLINE_S, NodeJsClient, installed, run
from tests.rig.upstream import Upstream

SAID = "Say hello."
FAULTS = {"instructor": 'tool:{"city":"Sydney"}'}
"""What the upstream does where an echo is no answer."""
SAID_BY = {"instructor": "Sydney"}
MORE = {"shell-gpt": ["click"]}
"""Packages that a client needs and doesn't install, as the page says."""
IN_NODE = ("openai-node", "Vercel AI SDK")

pytestmark = [pytest.mark.slow, pytest.mark.clients, pytest.mark.timeout(INSTALL_DEADLINE_S + RUN_DEADLINE_S)]


def test_every_client_of_the_table_has_an_example() -> None:
    assert {example.client for example in examples()} == set(packages())


def test_the_clients_that_are_installed_have_the_versions_of_the_table() -> None:
    locked = json.loads((CLIENTS / "package.json").read_text(encoding="utf-8"))["dependencies"]
    in_node = [package for client in IN_NODE for package in packages()[client]]
    assert set(in_node) <= {f"{name}=={version}" for name, version in locked.items()}
    assert packages()["openai-python"] == (f"openai=={importlib.metadata.version('openai')}",)


@pytest.mark.parametrize("example", examples(), ids=lambda one: f"{one.client} {one.number}")
def test_an_example_streams(
    example: Example,
    client_env: Mapping[str, str],
    chat_upstream: Upstream,
    request: pytest.FixtureRequest,
    folder: Path,
) -> None:
    chat_upstream.behave(FAULTS.get(example.client, "echo"))
    if example.client in IN_NODE:
        node_client: NodeJsClient = request.getfixturevalue("node_client")
        printed = node_client.execute(example.text, client_env)
    elif example.client == "openai-python":
        printed = run([sys.executable, "-W", "error", "-c", example.text], client_env, folder)
    else:
        programs = installed([*example.packages, *MORE.get(example.client, [])])
        env = {**client_env, "PATH": f"{programs}:{client_env['PATH']}"}
        shell = ["bash", "-ec"] if example.language != "python" else [str(programs / "python"), "-c"]
        printed = run([*shell, example.text], env, folder)
    assert SAID_BY.get(example.client, SAID) in printed
    assert [request.json["stream"] for request in chat_upstream.requests] == [True]

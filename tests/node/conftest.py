"""Nodes that have joined a fake service, `FarmSite`."""

import logging
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.node.local_node import LocalNode, local_node
from tests.rig.commands import CommandLine
from tests.rig.compute_node import ComputeNode, NodeMaker
from tests.rig.farm_site import FarmSite
from tests.rig.forks import Forks

ONE_SLOT = 'slots = 1\nshutdown_grace_s = 0.2\n[[engine]]\nkind = "espeak"\n'
"""A node with one slot and a grace period too short for a job."""

NodeWith = Callable[[str], ComputeNode]


@pytest.fixture
def joined(make_node: NodeMaker, farm_site: FarmSite) -> NodeWith:
    """Makes a node with this node.toml that has joined and is not running."""
    return lambda toml: make_node(toml).join(farm_site.url, farm_site.token)


@dataclass(frozen=True)
class Pair:
    """A fake service and a running node of it."""

    site: FarmSite
    node: ComputeNode


@pytest.fixture(scope="session")
def session_pair(
    commands: CommandLine, forks: Forks | None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Pair]:
    site = FarmSite()
    node = ComputeNode(tmp_path_factory.mktemp("pair") / "node", commands, ONE_SLOT, forks)
    yield Pair(site, node.join(site.url, site.token).start())
    node.kill()
    site.stop()


@pytest.fixture
def pair(session_pair: Pair) -> Pair:
    """A pair shared by tests that do not stop it. The log begins with the test."""
    session_pair.node.skip_logged()
    return session_pair


@pytest.fixture
def quick_retries(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first pause after a failed request is 20 ms instead of half a second."""
    monkeypatch.setattr("myna.node.server_client.RETRY_FIRST_S", 0.02)


@pytest.fixture
async def local(
    farm_site: FarmSite, tmp_path: Path, quick_retries: None, caplog: pytest.LogCaptureFixture
) -> AsyncIterator[LocalNode]:
    """A node with one slot in the process of the test."""
    caplog.set_level(logging.INFO, "myna.node")
    async with local_node(farm_site, tmp_path) as opened:
        yield opened

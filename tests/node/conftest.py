"""Nodes that have joined a fake service, `FarmSite`."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest

from tests.rig.commands import CommandLine
from tests.rig.compute_node import ComputeNode, NodeMaker
from tests.rig.farm_site import FarmSite

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
def session_pair(commands: CommandLine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    site = FarmSite()
    node = ComputeNode(tmp_path_factory.mktemp("pair") / "node", commands, ONE_SLOT)
    yield Pair(site, node.join(site.url, site.token).start())
    node.kill()
    site.stop()


@pytest.fixture
def pair(session_pair: Pair) -> Pair:
    """A pair shared by tests that do not stop it. The log begins with the test."""
    session_pair.node.skip_logged()
    return session_pair

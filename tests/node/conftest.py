"""Nodes that have joined the fake site."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest

from tests.rig.commands import CommandLine
from tests.rig.compute_node import ComputeNode, NodeMaker
from tests.rig.farm_site import FarmSite

ONE_SLOT = 'slots = 1\nshutdown_grace_s = 0.2\n[[engine]]\nkind = "espeak"\n'
"""A node that does one job at a time, and doesn't wait for it in the end."""

NodeWith = Callable[[str], ComputeNode]


@pytest.fixture
def joined(make_node: NodeMaker, farm_site: FarmSite) -> NodeWith:
    """Makes a node with this node.toml that has joined, and doesn't run."""
    return lambda toml: make_node(toml).join(farm_site.url, farm_site.token)


@dataclass(frozen=True)
class Pair:
    """A site and a node that works for it."""

    site: FarmSite
    node: ComputeNode


@pytest.fixture(scope="session")
def standing_pair(commands: CommandLine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    site = FarmSite()
    node = ComputeNode(tmp_path_factory.mktemp("pair") / "node", commands, ONE_SLOT)
    yield Pair(site, node.join(site.url, site.token).start())
    node.kill()
    site.stop()


@pytest.fixture
def pair(standing_pair: Pair) -> Pair:
    """One for all tests that leave both as they were; the log begins with the test."""
    standing_pair.node.skip_logged()
    return standing_pair

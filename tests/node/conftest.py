"""Nodes that have joined the fake site."""

from collections.abc import Callable

import pytest

from tests.rig.compute_node import ComputeNode, NodeMaker
from tests.rig.farm_site import FarmSite

ONE_SLOT = 'slots = 1\nshutdown_grace_s = 0.2\n[[engine]]\nkind = "espeak"\n'
"""A node that does one job at a time, and doesn't wait for it in the end."""

NodeWith = Callable[[str], ComputeNode]


@pytest.fixture
def joined(make_node: NodeMaker, farm_site: FarmSite) -> NodeWith:
    """Makes a node with this node.toml that has joined, and doesn't run."""
    return lambda toml: make_node(toml).join(farm_site.url, farm_site.token)


@pytest.fixture
def node(joined: NodeWith) -> ComputeNode:
    """A node with two slots that has joined and runs."""
    return joined("slots = 2\n").start()

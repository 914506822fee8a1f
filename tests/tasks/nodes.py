"""Nodes that join without a connection, and the endpoints for them."""

from collections.abc import Sequence
from pathlib import Path

from myna import __version__
from myna.accounts.throttle import KeyThrottle
from myna.actions.site import EnrollNode
from myna.api.farm import FarmApi
from myna.engines.media.media import Inspector
from myna.farm.nodes import Nodes
from myna.farm.tasks import Tasks
from myna.lib.ids import new_id
from myna.settings import Settings
from myna.store.database import Database
from myna.store.files.named_files import AudioStore, SampleStore
from myna.store.files.storage import Folder, FreeSpace
from myna.wire.farm import Hello, NodeVoice
from tests.rig.actors import perform


async def join_node(
    nodes: Nodes,
    *voices: str | NodeVoice,
    clones: Sequence[str] = (),
    name: str | None = None,
    slots: int = 64,
    chars_per_s: float = 0.0,
) -> tuple[int, str]:
    """Joins a node with these voices. Returns its id and its credential."""
    invited = await perform(nodes.db, EnrollNode(name=name or f"node-{new_id().hex()}"))
    credential = (await nodes.join(invited.token, "1")).credential
    node = await nodes.verify(f"Bearer {credential}".encode())
    offered = [
        voice if isinstance(voice, NodeVoice) else NodeVoice(voice, voice, "female", "zh-CN")
        for voice in voices
    ]
    offer = Hello(
        voices=offered, clones=list(clones), slots=slots, chars_per_s=chars_per_s, version=__version__
    )
    await nodes.hello(node, offer)
    return node.id, credential


def farm_api(db: Database, tasks: Tasks, inspector: Inspector, folder: Path) -> FarmApi:
    """The endpoints for nodes, with their files in the folder."""
    return FarmApi(
        settings=Settings(),
        db=db,
        nodes=Nodes(db),
        tasks=tasks,
        audio=AudioStore(Folder(folder)),
        samples=SampleStore(Folder(folder)),
        inspector=inspector,
        space=FreeSpace(folder, 0),
        throttle=KeyThrottle(),
    )

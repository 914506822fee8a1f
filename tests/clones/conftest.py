"""The parts that clone voices on the books of a test: inspector, file stores, a compute node."""

import hashlib
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest

from myna.accounts.keys import Scope
from myna.actions import Action
from myna.actions.media import CLONES_MAX, CloneVoice, DeleteVoice
from myna.channels.channels import Channels
from myna.engines.media.media import Inspector
from myna.farm.nodes import Nodes
from myna.farm.tasks import Tasks
from myna.settings import Settings
from myna.store.batch import Audio, Charge, NewTask, TaskStatus
from myna.store.database import Database, Transaction
from myna.store.files.named_files import AudioStore, SampleStore
from myna.store.files.storage import Folder
from myna.store.queries import clones as store
from myna.store.queries import config as config_store
from myna.store.queries.clones import CloneRow, Deleted, NewClone
from myna.store.states import CloneStatus
from myna.voices import clones
from myna.wire.farm import Job
from tests.rig.actors import perform
from tests.rig.samples import write_voice
from tests.store.books import Books, Customer
from tests.tasks.task_service import join_node, proof_of

PREVIEW = b"the preview"
Do = Callable[[Action[Any]], Awaitable[Any]]
"""Performs an action."""


class CloneSetup:
    """One service. Processes of the inspector start when the first sample is checked."""

    def __init__(self, books: Books, recording: Path) -> None:
        self.books = books
        self.recording = recording
        self.samples = SampleStore(Folder(books.folder))
        self.audio = AudioStore(Folder(books.folder))
        self.inspector = Inspector()
        self.tasks = Tasks(books.db, lease_s=30)

    async def close(self) -> None:
        await self.tasks.close()
        await self.inspector.close()

    async def clone(self, customer: Customer, db: Database | None = None, **changes: Any) -> CloneRow:
        """Clones a voice from the recording, as an operator does."""
        sample = {"sample": str(self.recording), "transcript": "你好，世界", "language": "zh"}
        consent = {"consent": True, "consent_by": "the account's owner"}
        action = CloneVoice(**{"account": customer.name, "name": "小明"} | sample | consent | changes)
        action.check()
        recording = Path(action.sample)
        recorded = clones.stored_sample(self.samples, self.inspector, recording, customer.account_id)
        async with recorded as stored:
            return await perform(db or self.books.db, msgspec.structs.replace(action, stored=stored))

    async def queued(self, customer: Customer) -> str:
        """The id of a queued voice; its sample is a few bytes that were not inspected."""
        name, path = self.samples.new()
        path.write_bytes(b"a sample")
        voice_id = f"clone-{name.removesuffix('.wav')}"
        sha256 = hashlib.sha256(b"a sample").digest()
        what = ("小明", "zh", "你好，世界", name, 8, sha256, 3500, "its owner", clones.CONSENT)
        new = NewClone(voice_id, customer.account_id, *what)

        async def work(connection: Transaction) -> bool:
            return await store.add(connection, new, CLONES_MAX)

        assert await self.books.db.transaction(work)
        return voice_id

    async def node(self) -> int:
        """The id of a node that clones Chinese voices."""
        return (await join_node(Nodes(self.books.db), clones=["zh"]))[0]

    async def leased(self, node_id: int) -> Job:
        """The node's next job."""
        (job,) = await self.tasks.lease(node_id, 1, 0)
        return job

    async def complete(self, node_id: int, job: Job) -> str:
        """The name of the job's audio in the store. Raises StaleLease after the file was deleted."""
        name, path = self.audio.new()
        path.parent.mkdir(exist_ok=True, parents=True)
        path.write_bytes(PREVIEW)
        audio = Audio(name, len(PREVIEW), hashlib.sha256(PREVIEW).digest())
        try:
            await self.tasks.complete(node_id, proof_of(job), audio)
        except BaseException:
            self.audio.delete(name)
            raise
        return name

    async def ready(self, customer: Customer, node_id: int) -> CloneRow:
        """A voice that the node has cloned."""
        voice_id = await self.queued(customer)
        await self.complete(node_id, await self.leased(node_id))
        clone = await self.find(voice_id)
        assert clone is not None
        assert clone.status == CloneStatus.READY
        return clone

    async def find(self, voice_id: str) -> CloneRow | None:
        return await store.by_voice_id(self.books.db, voice_id)

    async def delete(self, voice_id: str) -> Deleted:
        settings = Settings(data=str(self.books.folder))
        return await perform(self.books.db, DeleteVoice(voice_id=voice_id), settings=settings)

    async def ordered(
        self, customer: Customer, voice_id: str, status: TaskStatus = TaskStatus.QUEUED
    ) -> Charge:
        """A task of one unit in this voice."""
        tts, task = int(Scope.TTS), NewTask(text="你好", voice_id=voice_id, speed=1.0, status=status)
        version = (await config_store.load(self.books.db)).version
        return await self.books.opened(customer, scope=tts, pays=tts, task=task, config_version=version)

    def files(self) -> list[str]:
        """Every file of the two stores."""
        folders = [self.books.folder / "samples", self.books.folder / "audio"]
        return sorted(path.name for folder in folders for path in folder.rglob("*") if path.is_file())


@pytest.fixture
async def clone_setup(books: Books, recording: Path) -> AsyncIterator[CloneSetup]:
    opened = CloneSetup(books, recording)
    yield opened
    await opened.close()


@pytest.fixture(scope="session")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A good sample, slightly longer than three seconds."""
    return write_voice(tmp_path_factory.mktemp("recording") / "voice.wav", 3.5)


@pytest.fixture
def do(books: Books, channels: Channels) -> Do:
    """Performs actions on these books that know the channels of the test's module."""
    return partial(perform, books.db, channels=channels)

"""The parts of a serving process that tasks need, and nodes that lease them."""

import contextlib
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from myna import __version__
from myna.accounts.keys import Scope, UnverifiedCaller
from myna.accounts.throttle import KeyThrottle
from myna.actions.site import EnrollNode
from myna.api.farm import FarmApi
from myna.billing.ledger import Call, ChargeOrder
from myna.billing.quota import Quota
from myna.channels.channels import Channels
from myna.engines.media.media import Inspector
from myna.engines.pool.admission import Slot
from myna.farm.nodes import Capacity, Nodes
from myna.farm.tasks import TRIES_EXHAUSTED, Tasks
from myna.http.client import HttpClient
from myna.lib.ids import new_id
from myna.settings import Settings
from myna.speech.plan import CheckedSpeech, Planner
from myna.store.batch import Charge, NewTask, Replayed, TaskStatus
from myna.store.database import Database, Transaction
from myna.store.files.named_files import AudioStore, SampleStore
from myna.store.files.storage import Folder, FreeSpace
from myna.store.queries import clones
from myna.store.queries import config as config_store
from myna.store.queries.clones import NewClone
from myna.voices.clones import CONSENT
from myna.wire.farm import Failure, Heartbeat, Hello, Job, LeaseProof, NodeVoice
from tests.ledger.ledger_service import LedgerService, ledger_service_on
from tests.rig.actors import perform
from tests.store.books import Books, Customer

VOICE = "a voice"
TEXT = "你好，世界"
HUNDRED = "字" * 100
LEASE_S = 30.0
LEASE_MS = 30_000
DEADLINE_MS = 600_000
CLONES_MAX = 100
FREE = (0, 0, 0)
"""Node, end of the lease and length of the token of a job without a lease."""


def planner_of(service: LedgerService, channels: Channels, space: FreeSpace, quota: Quota) -> Planner:
    return Planner(
        db=service.db,
        ledger=service.ledger,
        config=service.config,
        channels=channels,
        capacity=Capacity(service.db),
        space=space,
        quota=quota,
        try_s=5.0,
    )


class TaskService:
    """One process: its ledger, its queue (`tasks`) and the administration of nodes (`nodes`)."""

    def __init__(self, books: Books, ledger_service: LedgerService, tasks: Tasks) -> None:
        self.books = books
        self.ledger_service = ledger_service
        self.db = ledger_service.db
        self.config = ledger_service.config
        self.ledger = ledger_service.ledger
        self.tasks = tasks
        self.nodes = Nodes(self.db)
        self.space = FreeSpace(books.folder, 0)
        self.quota = Quota(self.db, self.config)

    async def node(
        self,
        *voices: str,
        clones: Sequence[str] = (),
        name: str | None = None,
        slots: int = 64,
        chars_per_s: float = 0.0,
    ) -> int:
        """Joins a node with these voices, or with VOICE if it has no voices and no clones. Returns its id."""
        offered = voices or (() if clones else (VOICE,))
        joined = join_node(
            self.nodes, *offered, clones=clones, name=name, slots=slots, chars_per_s=chars_per_s
        )
        return (await joined)[0]

    async def ordered(
        self, customer: Customer, voice: str = VOICE, text: str = TEXT, language: str = "", **changes: Any
    ) -> Charge:
        """Charges a unit for a queued task. `changes` are fields of `Charge`."""
        task = NewTask(text=text, voice_id=voice, speed=1.5, status=TaskStatus.QUEUED, language=language)
        return await self._charged(customer, task, changes)

    async def admitted(
        self, customer: Customer, voice: str = VOICE, node_s: float = 20.0, text: str = HUNDRED
    ) -> Call:
        """Admits a call for speech by a node, as POST /tts does. Its task is queued."""
        channels = Channels(
            settings=Settings(speech="none"), environ={}, http_client=HttpClient(connections_max=1), local={}
        )
        planner = planner_of(self.ledger_service, channels, self.space, self.quota)
        caller = UnverifiedCaller(customer.key_hash, Scope.TTS)

        async def planned() -> ChargeOrder:
            plan = await planner.plan(
                caller,
                CheckedSpeech(text=text, voice_id=voice, speed=1.0, channel_s=5.0, node_s=node_s),
                Slot(),
            )
            return ChargeOrder(pays=Scope.TTS, units=1, seconds=plan.seconds, task=plan.task)

        admitted = await self.ledger_service.charge(caller, planned)
        assert not isinstance(admitted, Replayed)
        async with admitted as call:
            call.hand_over()
        return call

    async def started_here(self, customer: Customer, voice: str = VOICE, **changes: Any) -> Charge:
        """Charges a unit for a task that the service itself speaks."""
        return await self._charged(
            customer, NewTask(text=TEXT, voice_id=voice, speed=1.5, status=TaskStatus.PROCESSING), changes
        )

    async def _charged(self, customer: Customer, task: NewTask, changes: dict[str, Any]) -> Charge:
        tts, version = int(Scope.TTS), (await config_store.load(self.books.db)).version
        plain = {"scope": tts, "pays": tts, "deadline_ms": DEADLINE_MS, "config_version": version}
        return await self.books.opened(customer, **plain | changes, task=task)

    async def clone(self, customer: Customer, language: str = "zh", sample: bytes = b"s" * 32) -> str:
        """Orders a cloned voice and returns its id."""
        voice_id = f"clone-{new_id().hex()}"
        what = ("小明", language, "你好", f"{voice_id}.wav", 8, sample, 3500, "its owner", CONSENT)
        new = NewClone(voice_id, customer.account_id, *what)

        async def work(connection: Transaction) -> bool:
            return await clones.add(connection, new, CLONES_MAX)

        assert await self.books.db.transaction(work)
        return voice_id

    async def leased(self, node_id: int) -> Job:
        """Ends the cooldown of the node, then leases its next job."""
        await self.end_cooldown(node_id)
        (job,) = await self.tasks.lease(node_id, 1, 0)
        return job

    async def end_cooldown(self, node_id: int) -> None:
        await self.books.sql("UPDATE nodes SET rests_until = 0 WHERE id = $1", node_id)

    async def lease_new(
        self, node_id: int, customer: Customer | None = None, **changes: Any
    ) -> tuple[Charge, Job]:
        """Orders a task and leases it to this node."""
        call = await self.ordered(customer or await self.books.customer(), **changes)
        return call, await self.leased(node_id)

    async def beats(self, node_id: int, proof: LeaseProof, progress: float = 0.0) -> bool:
        """Sends a beat. Returns whether the lease is valid."""
        return not await self.tasks.beat(node_id, [Heartbeat(proof, progress)])

    async def sweep_leases(self) -> tuple[int, int]:
        """Runs the sweep of leases. Returns the numbers of requeued and of refunded jobs."""
        requeued = await self.tasks.requeue_expired()
        return requeued, await self.ledger.refund_all(
            dict.fromkeys(await self.tasks.exhausted(), TRIES_EXHAUSTED)
        )

    async def let_lease_expire(self, node_id: int) -> None:
        """Leases the next job to the node and moves the clock past the end of the lease."""
        await self.leased(node_id)
        await self.books.move_clock(LEASE_MS + 1)

    async def lease_of(self, call: Charge) -> tuple[int, int, int]:
        """Node, end of the lease and length of the token of the call's task."""
        (row,) = await self.books.sql(
            "SELECT node_id, lease_until, length(token_hash) FROM tasks WHERE call_id = $1", call.call_id
        )
        return row[0], row[1], row[2]

    async def status(self, call: Charge) -> int:
        return int((await self.books.task(call.call_id))[0])

    async def tries(self, call: Charge) -> int:
        ((tries,),) = await self.books.sql("SELECT tries FROM tasks WHERE call_id = $1", call.call_id)
        return int(tries)

    async def clone_row(self, voice_id: str) -> tuple[int, str, str]:
        """Status, reason and preview of a cloned voice."""
        row = await clones.by_voice_id(self.books.db, voice_id)
        assert row is not None
        return row.status, row.reason, row.preview


def proof_of(job: Job, **changes: Any) -> LeaseProof:
    """The proof of the lease of a job. `changes` are fields of `LeaseProof`."""
    return msgspec.structs.replace(job.lease, **changes)


def failure(job: Job, *, final: bool = False, returned: bool = False) -> Failure:
    return Failure(lease=proof_of(job), reason="it was too loud", final=final, returned=returned)


@contextlib.asynccontextmanager
async def task_service_on(
    books: Books, db: Database | None = None, lease_s: float = LEASE_S
) -> AsyncIterator[TaskService]:
    """Opens the parts of one process on the database of the books, or on another connection to it."""
    async with ledger_service_on(db or books.db) as ledger_service:
        tasks = Tasks(ledger_service.db, lease_s=lease_s)
        await tasks.start()
        yield TaskService(books, ledger_service, tasks)
        await tasks.close()


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

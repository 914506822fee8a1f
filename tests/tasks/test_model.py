"""Stateful test of the queue: tasks, cloned voices and nodes in any order of steps, compared with a model.

The model predicts each lease and each answer to a node. The audit must find nothing after any step. Only the
steps that pass time move the clock.

A run uses the same few examples every time, `make test-slow` uses more of them. MYNA_TEST_EXAMPLES=2000 runs
2000 random ones.
"""

import contextlib
import itertools
import os
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import Phase
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, rule

from myna.actions.site import DisableNode, DrainNode, EnableNode, RemoveNode
from myna.errors import StaleLease
from myna.store.batch import AUDIO_PLACEHOLDER, TASK_PLACEHOLDER, Audio, Charge, EndOutcome, IdempotencyKey
from myna.store.database import Transaction
from myna.store.queries import clones
from myna.store.queries.clones import Deleted
from myna.wire.farm import Job
from tests.rig.actors import perform
from tests.store.books import AUDIO, DIFFERENT_AUDIO, Customer, idempotency_key_of, keep_of
from tests.store.machine import BooksMachine, Run, with_examples
from tests.tasks.model import DONE, LEASE_S, LEASED, QUEUED, SWEPT_S, Lease, Model, Node, Task, Voice, Work
from tests.tasks.task_service import TaskService, failure, proof_of, task_service_on

Said = tuple[Job, Lease]
Draw = Callable[[st.SearchStrategy[Any]], Any]
among = st.sampled_from
EXAMPLES = int(os.environ.get("MYNA_TEST_EXAMPLES", "0"))
STEPS = 50
TIMEOUT_S = 7200 if EXAMPLES else 1800
"""Far more than a run takes. Hypothesis takes the error of a timeout for a failing example, and reports a
FlakyStrategyDefinition when its replay passes."""
NODES = (Node(("a", "b")), Node(("a",), ("zh",)), Node((), ("en", "zh")))
LIVES_S = (200, 1100)
STEPS_S = (70, 3, 70, 310, 1130)
DRAFTS = (None, TASK_PLACEHOLDER, f"{TASK_PLACEHOLDER} {AUDIO_PLACEHOLDER}")
PUTS = {"disable": DisableNode, "enable": EnableNode, "drain": DrainNode, "remove": RemoveNode}
CHANGES = ("disable", "enable", "drain", "enable", "enable", "remove")
SERVICE_ANSWER = "spoken by the site"


class Machine(BooksMachine):
    """One service, with a new database in every example."""

    def __init__(self) -> None:
        super().__init__()
        self.model = Model()
        self.customers: list[Customer] = []
        self.nodes: list[int] = []
        self.leased: list[Said] = []
        self.calls: dict[int, Charge] = {}
        self.numbers = itertools.count()
        self.process = contextlib.AsyncExitStack()
        service = task_service_on(self.books, lease_s=LEASE_S)
        self.service: TaskService = self.run(self.process.enter_async_context(service))

    @initialize(units=st.lists(st.integers(2, 20), min_size=2, max_size=3))
    def open_accounts_and_enroll_nodes(self, units: list[int]) -> None:
        self.run(self.books.stop_clock())
        for amount in units:
            customer = self.run(self.books.customer(amount))
            self.customers.append(customer)
            self.model.units[customer.account_id] = amount
        self.nodes = [self._enrolled(number) for number in range(len(NODES))]

    def _enrolled(self, number: int) -> int:
        node = NODES[number]
        offer = self.service.node(*node.voices, clones=node.languages, name=f"node {number}")
        node_id = self.run(offer)
        self.model.nodes[node_id] = Node(node.voices, node.languages, heard_at=self.model.now)
        return node_id

    @rule(data=st.data())
    def any_step(self, data: st.DataObject) -> None:
        """The only rule: with many rules, Hypothesis leaves some out of every example."""
        step = data.draw(among(self._possible()), label="what")
        getattr(self, step)(data.draw)

    def _possible(self) -> list[str]:
        """The steps that are possible now. A step that is listed twice or early is drawn more often."""
        model, steps = self.model, []
        if any(job.status == QUEUED for job in model.jobs):
            steps += ["lease", "lease", "fail_leases", "fail_leases", "make_voices", "let_leases_expire"]
            steps += ["refuse", "refuse"]
        if self.leased:
            steps += ["complete", "complete", "fail", "beat"]
        if any(model.units.values()):
            steps += ["order", "order", "begin"]
        if any(task.spoken_by_service for task in model.tasks):
            steps += ["queue_for_nodes", "speak"]
        if any(job.status == LEASED for job in model.jobs):
            steps += ["sweep_leases"]
        if any(task.status < DONE for task in model.tasks):
            steps += ["sweep"]
        if model.tasks:
            steps += ["queue_for_nodes"]
        if model.voices:
            steps += ["fetch_sample", "fetch_sample", "delete_a_voice"]
        return [
            *steps,
            "order_a_voice",
            "order_a_voice",
            "change_node",
            "beat_nodes",
            "pass_time",
            "restart_process",
        ]

    # ---- orders

    def order(self, draw: Draw) -> None:
        """The voice is public, or of no node, or a cloned one of the account."""
        customer = self._payer(draw)
        own = [voice.voice_id for voice in self.model.voices if voice.account_id == customer.account_id]
        voice = draw(among(["a", "a", "b", "c", *own]))
        draft, life_s = draw(among(DRAFTS)), draw(among(LIVES_S))
        idempotency_key = self._idempotency_key(bool(draft))
        changes = {"idempotency_key": idempotency_key, "draft": draft, "deadline_ms": life_s * 1000}
        call = self.run(self.service.ordered(customer, voice, **changes))
        self._ordered(call, Task(0, customer.account_id, voice_id=voice, has_key=bool(draft)), life_s, draft)

    def begin(self, draw: Draw) -> None:
        """The service itself speaks."""
        customer, has_key = self._payer(draw), draw(st.booleans())
        key = self._idempotency_key(has_key)
        call = self.run(self.service.started_here(customer, "a", idempotency_key=key, deadline_ms=200_000))
        self._ordered(call, Task(0, customer.account_id, LEASED, voice_id="a", has_key=has_key), 200, None)

    def _payer(self, draw: Draw) -> Customer:
        return draw(among([customer for customer in self.customers if self.model.units[customer.account_id]]))

    def _idempotency_key(self, wanted: bool) -> IdempotencyKey | None:
        return idempotency_key_of(f"order {next(self.numbers)}") if wanted else None

    def _ordered(self, call: Charge, task: Task, life_s: int, draft: str | None) -> None:
        ((task.id,),) = self._rows("SELECT id FROM tasks WHERE call_id = $1", call.call_id)
        task.call_id, self.calls[task.id] = call.call_id, call
        self.model.order(task, life_s, draft)

    def queue_for_nodes(self, draw: Draw) -> None:
        """A task that has ended or has been taken over stays unchanged."""
        spoken_by_service = [task for task in self.model.tasks if task.spoken_by_service]
        task = draw(among([*spoken_by_service, *self.model.tasks[-5:]]))
        draft, life_s = draw(among(DRAFTS)) if task.has_key else None, draw(among(LIVES_S))
        left = self.service.tasks.queue_for_nodes(task.account_id, task.call_id, life_s, draft)
        assert self.run(left) is self.model.queue_for_nodes(task, life_s, draft)

    def speak(self, draw: Draw) -> None:
        """The service itself completes the task."""
        task = draw(among([task for task in self.model.tasks if task.spoken_by_service]))
        answer = SERVICE_ANSWER if task.has_key else None
        (outcome,) = self.run(self.books.end(keep_of(self.calls[task.id], answer, AUDIO)))
        assert (outcome is EndOutcome.DONE) is self.model.keep(task, AUDIO.name, answer)

    def order_a_voice(self, draw: Draw) -> None:
        customer, language = draw(among(self.customers)), draw(among(["zh", "zh", "en", "de"]))
        sample = next(self.numbers).to_bytes(32)
        voice_id = self.run(self.service.clone(customer, language, sample))
        ((clone_id,),) = self._rows("SELECT id FROM clones WHERE voice_id = $1", voice_id)
        self.model.voices.append(Voice(clone_id, customer.account_id, voice_id=voice_id, language=language))

    def delete_a_voice(self, draw: Draw) -> None:
        voice = draw(among(self.model.voices))
        expected = self.model.delete(voice)

        async def work(db: Transaction) -> Deleted | None:
            return await clones.delete(db, voice.voice_id)

        deleted = self.run(self.books.db.transaction(work))
        assert deleted is not None
        assert deleted.refunded == expected

    # ---- nodes

    def lease(self, draw: Draw) -> list[Said]:
        node_id, jobs = draw(among(self.nodes)), draw(st.integers(1, 3))
        found = self.run(self.service.tasks.lease(node_id, jobs, 0))
        expected = self.model.lease(node_id, jobs)
        assert [(job.kind, job.id, job.epoch) for job in found] == [
            (one.kind, one.id, one.epoch) for one in expected
        ]
        said = [(job, Lease(one, node_id, one.epoch)) for job, one in zip(found, expected, strict=True)]
        self.leased += said
        return said

    def fail_leases(self, draw: Draw) -> None:
        for said in self.lease(draw):
            self._fail(said, False, draw(among([False, False, False, True])))

    def make_voices(self, draw: Draw) -> None:
        for said in self.lease(draw):
            if said[0].kind == "clone":
                self._complete(said, AUDIO)

    def let_leases_expire(self, draw: Draw) -> None:
        """The leases of the node expire."""
        self.lease(draw)
        self._pass_time(310)
        self.sweep_leases(draw)

    def _some_lease(self, draw: Draw) -> Said:
        """A job with a valid lease, or one of the last leases."""
        return draw(among([*(said for said in self.leased if self.model.valid(said[1])), *self.leased[-3:]]))

    def beat(self, draw: Draw) -> None:
        """Also from another node, and with an invalid proof."""
        job, lease = self._some_lease(draw)
        asking = draw(among([lease.node_id, lease.node_id, *self.nodes]))
        wrong = draw(among([{}, {}, {"epoch": job.epoch + 1}, {"token": "0" * 32}]))
        renewed = self.run(self.service.beats(asking, proof_of(job, **wrong)))
        assert renewed is (self.model.valid(lease) and asking == lease.node_id and not wrong)
        if renewed:
            self.model.renew(lease.job)

    def complete(self, draw: Draw) -> None:
        """Also repeated, too late, and with different audio."""
        self._complete(self._some_lease(draw), draw(among([AUDIO, AUDIO, DIFFERENT_AUDIO])))

    def _complete(self, said: Said, audio: Audio) -> None:
        job, lease = said
        accepted = self.run(self.service.tasks.has_lease(lease.node_id, proof_of(job)))
        assert accepted is (self.model.valid(lease) or self.model.completed(lease))
        expected = self.model.complete(lease, audio.name)
        with pytest.raises(StaleLease) if expected is None else contextlib.nullcontext():
            assert self.run(self.service.tasks.complete(lease.node_id, proof_of(job), audio)) is expected

    def fail(self, draw: Draw) -> None:
        self._fail(self._some_lease(draw), draw(st.booleans()), draw(st.booleans()))

    def _fail(self, said: Said, final: bool, returned: bool) -> None:
        job, lease = said
        expected = self.model.fail(lease, final, returned)
        why = failure(job, final=final, returned=returned)
        with contextlib.nullcontext() if expected else pytest.raises(StaleLease):
            self.run(self.service.tasks.fail(lease.node_id, why))

    def fetch_sample(self, draw: Draw) -> None:
        voice, node_id = draw(among(self.model.voices)), draw(among(self.nodes))
        ((sample, sha256),) = self._rows("SELECT sample, sample_sha256 FROM clones WHERE id = $1", voice.id)
        expected = sample if self.model.may_fetch_sample(node_id, voice) else None
        assert self.run(self.service.tasks.reference(node_id, sha256)) == expected

    def beat_nodes(self, _: Draw) -> None:
        self.run(self.books.sql("UPDATE nodes SET heard_at = now_ms()"))
        for node_id in self.nodes:
            self.model.node_called(node_id)

    def refuse(self, draw: Draw) -> None:
        """Online nodes report a final failure of their jobs."""
        self.beat_nodes(draw)
        for said in self.lease(draw):
            self._fail(said, True, False)

    def change_node(self, draw: Draw) -> None:
        """A removed node joins again."""
        number, put = draw(among(range(len(NODES)))), draw(among(CHANGES))
        self.run(perform(self.service.db, PUTS[put](name=f"node {number}")))
        self.model.put(self.nodes[number], put)
        if put == "remove":
            self.nodes[number] = self._enrolled(number)

    # ---- the clock and the process

    def pass_time(self, draw: Draw) -> None:
        self._pass_time(draw(among(STEPS_S)))

    def _pass_time(self, seconds: int) -> None:
        self.run(self.books.move_clock(seconds * 1000))
        self.model.now += seconds
        if self.model.overdue(SWEPT_S):
            self._sweep()

    def sweep_leases(self, _: Draw) -> None:
        assert self.run(self.service.sweep_leases()) == self.model.sweep_leases()

    def sweep(self, _: Draw) -> None:
        self._sweep()

    def _sweep(self) -> None:
        assert self.run(self.service.ledger.sweep()) == self.model.refund(self.model.overdue())

    def restart_process(self, _: Draw) -> None:
        """As after a crash. On SQLite, with one process, tasks that the service itself spoke are refunded."""
        self.run(self._restart())
        if self.books.db.single_process:
            lost = [task for task in self.model.tasks if task.spoken_by_service]
            assert self.run(self.service.ledger.recover()) == self.model.refund(lost)

    async def _restart(self) -> None:
        await self.process.aclose()
        await self.books.db.close()
        self.books.db = await self.books.open_again()
        self.service = await self.process.enter_async_context(task_service_on(self.books, lease_s=LEASE_S))

    # ---- invariants

    @invariant()
    def database_equals_model(self) -> None:
        self.run(self._compared())

    async def _compared(self) -> None:
        assert await self.books.audit() == []
        assert dict(await self._fetched("SELECT id, balance FROM accounts")) == self.model.units
        for table, jobs in (("tasks", self.model.tasks), ("clones", self.model.voices)):
            columns = "id, status, epoch, tries, node_id, refused_by"
            rows = await self._fetched(f"SELECT {columns} FROM {table} ORDER BY id")
            assert rows == [
                (job.id, job.status, job.epoch, job.tries, job.node_id, refused_by(job)) for job in jobs
            ]
        cooldowns = await self._fetched("SELECT id, failures FROM nodes ORDER BY id")
        assert cooldowns == [(node_id, node.failures) for node_id, node in sorted(self.model.nodes.items())]
        answers = dict(await self._fetched("SELECT call_id, answer FROM reservations"))
        assert answers == {task.call_id: task.answer for task in self.model.tasks if task.has_stored_response}

    def _rows(self, sql: str, *args: object) -> list[tuple[Any, ...]]:
        return self.run(self._fetched(sql, *args))

    async def _fetched(self, sql: str, *args: object) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in await self.books.db.fetch(sql, *args)]

    def teardown(self) -> None:
        self.run(self.process.aclose())
        super().teardown()


def refused_by(job: Work) -> str:
    return "".join(f",{node_id}," for node_id in job.refused_by)


@pytest.mark.timeout(TIMEOUT_S)
@with_examples(8)
def test_the_queue_equals_the_model_after_any_steps(run_machine: Run) -> None:
    more = {"max_examples": EXAMPLES, "derandomize": False} if EXAMPLES else {}
    run_machine(
        Machine, stateful_step_count=STEPS, phases=set(Phase) - {Phase.explain}, print_blob=True, **more
    )

"""Anything that may happen to tasks, cloned voices and their nodes, in any order, against a model.

The model says what every node gets and what becomes of what it says; the audit must find nothing at any
step. The clock stands but for the steps that move it.

A run looks at the same few examples every time; MYNA_TEST_EXAMPLES=2000 makes it look at so many others.
"""

import asyncio
import contextlib
import gc
import itertools
import os
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from myna.errors import Stale
from myna.store import clones
from myna.store.batch import AUDIO_MARK, TASK_MARK, Audio, Charge, EndOutcome
from myna.store.clones import Deleted
from myna.store.database import Connection
from myna.wire.farm import Job
from tests.rig.postgres import Postgres
from tests.store.books import AUDIO, DIFFERENT_AUDIO, Books, Holder, books_of, keep_of, reserved
from tests.tasks.model import HELD, LEASE_S, QUEUED, SWEPT_S, Lease, Model, Node, Task, Voice
from tests.tasks.works import Works, failure, shown, works_on

T = TypeVar("T")
EXAMPLES = int(os.environ.get("MYNA_TEST_EXAMPLES", "0"))
STEPS = 50
NODES = (Node(("a", "b")), Node(("a",), ("zh",)), Node((), ("en", "zh")))
SITES_ANSWER = "spoken by the site"
which = st.integers(0, 30)
lately = st.sampled_from([0, 0, 0, 1, 1, 2, 3, 5, 8])
"""How many came after it."""
there_are_tasks = precondition(lambda self: self.model.tasks)
there_are_voices = precondition(lambda self: self.model.voices)
something_waits = precondition(lambda self: any(job.status == QUEUED for job in self.model.jobs))
something_was_leased = precondition(lambda self: self.leased)
lives_s = st.sampled_from([200, 1100])
drafts = st.sampled_from([None, TASK_MARK, f"{TASK_MARK} {AUDIO_MARK}"])


class Machine(RuleBasedStateMachine):
    """One site, with a database of its own in every example."""

    runner: ClassVar[asyncio.Runner]
    new_books: ClassVar[Callable[[], AbstractAsyncContextManager[Books]]]

    def __init__(self) -> None:
        super().__init__()
        self.model = Model()
        self.holders: list[Holder] = []
        self.nodes: list[int] = []
        self.leased: list[tuple[Job, Lease]] = []
        self.calls: dict[int, Charge] = {}
        self.numbers = itertools.count()
        self.opened = contextlib.AsyncExitStack()
        self.books: Books = self.run(self.opened.enter_async_context(type(self).new_books()))
        self.process = contextlib.AsyncExitStack()
        self.works: Works = self.run(self.process.enter_async_context(works_on(self.books, lease_s=LEASE_S)))

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self.runner.run(work)

    @initialize(units=st.lists(st.integers(2, 20), min_size=2, max_size=3))
    def open_accounts_and_enroll_nodes(self, units: list[int]) -> None:
        self.run(self.books.stop_clock())
        for amount in units:
            holder = self.run(self.books.holder(amount))
            self.holders.append(holder)
            self.model.units[holder.account_id] = amount
        self.nodes = [self._enrolled(number) for number in range(len(NODES))]

    def _enrolled(self, number: int) -> int:
        node = NODES[number]
        offer = self.works.node(*node.voices, clones=node.languages, name=f"node {number}")
        node_id = self.run(offer)
        self.model.nodes[node_id] = Node(node.voices, node.languages)
        return node_id

    # ---- orders

    @rule(who=which, voice=st.sampled_from(["a", "a", "a", "b", "c"]), draft=drafts, life_s=lives_s)
    def order(self, who: int, voice: str, draft: str | None, life_s: int) -> None:
        if paying := [holder for holder in self.holders if self.model.units[holder.account_id]]:
            self._order(paying[who % len(paying)], voice, draft, life_s)

    @there_are_voices
    @rule(number=which, draft=drafts, life_s=lives_s)
    def order_in_a_voice_of_an_account(self, number: int, draft: str | None, life_s: int) -> None:
        voice = self.model.voices[number % len(self.model.voices)]
        if self.model.units[voice.account_id]:
            (holder,) = (one for one in self.holders if one.account_id == voice.account_id)
            self._order(holder, voice.voice_id, draft, life_s)

    def _order(self, holder: Holder, voice: str, draft: str | None, life_s: int) -> None:
        reservation = reserved(f"order {next(self.numbers)}") if draft else None
        changes = {"reservation": reservation, "draft": draft, "deadline_ms": life_s * 1000}
        call = self.run(self.works.ordered(holder, voice, **changes))
        self._ordered(holder, call, Task(0, 0, voice_id=voice, copies=bool(draft)), life_s, draft)

    @rule(who=which, copies=st.booleans())
    def begin(self, who: int, copies: bool) -> None:
        """The site itself speaks."""
        if paying := [holder for holder in self.holders if self.model.units[holder.account_id]]:
            holder = paying[who % len(paying)]
            reservation = reserved(f"order {next(self.numbers)}") if copies else None
            call = self.run(self.works.begun(holder, "a", reservation=reservation, deadline_ms=200_000))
            self._ordered(holder, call, Task(0, 0, HELD, voice_id="a", copies=copies), 200, None)

    def _ordered(self, holder: Holder, call: Charge, task: Task, life_s: int, draft: str | None) -> None:
        ((task_id,),) = self._rows("SELECT id FROM tasks WHERE call_id = $1", call.call_id)
        task.id, task.account_id, task.call_id = task_id, holder.account_id, call.call_id
        self.calls[task_id] = call
        self.model.order(task, life_s, draft)

    @there_are_tasks
    @rule(number=lately, draft=drafts, life_s=lives_s)
    def leave_to_nodes(self, number: int, draft: str | None, life_s: int) -> None:
        """Also a task that ended meanwhile or that a node has: that one stays as it is."""
        task = self._task(number)
        draft = draft if task.copies else None
        left = self.works.tasks.take_over(task.account_id, task.call_id, life_s, draft)
        assert self.run(left) is self.model.leave_to_nodes(task, life_s, draft)

    @precondition(lambda self: any(task.at_site for task in self.model.tasks))
    @rule(number=which)
    def speak(self, number: int) -> None:
        """The site is done itself."""
        at_site = [task for task in self.model.tasks if task.at_site]
        task = at_site[number % len(at_site)]
        answer = SITES_ANSWER if task.copies else None
        (outcome,) = self.run(self.books.end(keep_of(self.calls[task.id], answer, AUDIO)))
        assert (outcome is EndOutcome.DONE) is self.model.keep(task, AUDIO.name, answer)

    def _task(self, number: int) -> Task:
        """The latest first."""
        return self.model.tasks[-1 - number % len(self.model.tasks)]

    @rule(who=which, language=st.sampled_from(["zh", "zh", "en", "de"]))
    def order_a_voice(self, who: int, language: str) -> None:
        holder = self.holders[who % len(self.holders)]
        number = next(self.numbers)
        voice_id = self.run(self.works.clone(holder, language, sample=number.to_bytes(32)))
        ((clone_id,),) = self._rows("SELECT id FROM clones WHERE voice_id = $1", voice_id)
        self.model.voices.append(Voice(clone_id, holder.account_id, voice_id=voice_id, language=language))

    @there_are_voices
    @rule(number=which)
    def delete_a_voice(self, number: int) -> None:
        voice = self.model.voices[number % len(self.model.voices)]
        expected = self.model.delete(voice)

        async def work(db: Connection) -> Deleted | None:
            return await clones.delete(db, voice.voice_id)

        deleted = self.run(self.books.db.transaction(work))
        assert deleted is not None
        assert deleted.refunded == expected

    # ---- nodes

    @something_waits
    @rule(number=which, jobs=st.integers(1, 3))
    def lease(self, number: int, jobs: int) -> None:
        node_id = self.nodes[number % len(NODES)]
        found = self.run(self.works.tasks.lease(node_id, jobs, 0))
        expected = self.model.lease(node_id, jobs)
        assert [(job.kind, job.id, job.epoch) for job in found] == [
            (one.kind, one.id, one.epoch) for one in expected
        ]
        for job, one in zip(found, expected, strict=True):
            self.leased.append((job, Lease(one, node_id, one.epoch)))

    def _said(self, number: int) -> tuple[Job, Lease]:
        """A job that some node has, at times one that it had; the latest first."""
        held = [said for said in self.leased if self.model.holds(said[1])]
        among = held if held and number % 3 else self.leased
        return among[-1 - number % len(among)]

    @something_was_leased
    @rule(number=which, by_another=st.sampled_from([False, False, False, True]))
    def beat(self, number: int, by_another: bool) -> None:
        job, lease = self._said(number)
        asking = max(self.nodes) + 1 if by_another else lease.node_id
        goes_on = self.run(self.works.beats(asking, shown(job)))
        assert goes_on is (self.model.holds(lease) and not by_another)
        if goes_on:
            self.model.renew(lease.job)

    @something_was_leased
    @rule(number=which, audio=st.sampled_from([AUDIO, AUDIO, DIFFERENT_AUDIO]))
    def complete(self, number: int, audio: Audio) -> None:
        """Also again, also too late, also with another audio."""
        self._complete(self._said(number), audio)

    def _complete(self, said: tuple[Job, Lease], audio: Audio) -> None:
        job, lease = said
        taken = self.run(self.works.tasks.holds(lease.node_id, shown(job)))
        assert taken is (self.model.holds(lease) or self.model.completed(lease))
        expected = self.model.complete(lease, audio.name)
        with pytest.raises(Stale) if expected is None else contextlib.nullcontext():
            assert self.run(self.works.tasks.complete(lease.node_id, shown(job), audio)) is expected

    @something_was_leased
    @rule(number=which, final=st.booleans(), handed_back=st.booleans())
    def fail(self, number: int, final: bool, handed_back: bool) -> None:
        self._fail(self._said(number), final, handed_back)

    def _fail(self, said: tuple[Job, Lease], final: bool, handed_back: bool) -> None:
        job, lease = said
        expected = self.model.fail(lease, final, handed_back)
        with contextlib.nullcontext() if expected else pytest.raises(Stale):
            self.run(self.works.tasks.fail(lease.node_id, failure(job, final=final, handed_back=handed_back)))

    @something_waits
    @rule(number=which, handed_back=st.sampled_from([False, False, True]))
    def try_in_vain(self, number: int, handed_back: bool) -> None:
        before = len(self.leased)
        self.lease(number, 1)
        if len(self.leased) > before:
            self._fail(self.leased[-1], False, handed_back)

    @something_waits
    @rule(number=which)
    def fall_silent(self, number: int) -> None:
        """A node takes what it gets, and its leases run out."""
        self.lease(number, 3)
        self.pass_time(310)
        self.look_after_leases()

    @precondition(lambda self: any(voice.status == QUEUED for voice in self.model.voices))
    @rule(number=which)
    def make_voices(self, number: int) -> None:
        before = len(self.leased)
        self.lease(number, 3)
        for said in self.leased[before:]:
            if said[0].kind == "clone":
                self._complete(said, AUDIO)

    @there_are_voices
    @rule(number=which, asking=which)
    def ask_for_a_sample(self, number: int, asking: int) -> None:
        voice = self.model.voices[number % len(self.model.voices)]
        node_id = self.nodes[asking % len(NODES)]
        ((sample, sha256),) = self._rows("SELECT sample, sample_sha256 FROM clones WHERE id = $1", voice.id)
        expected = sample if self.model.may_hear(node_id, voice) else None
        assert self.run(self.works.tasks.reference(node_id, sha256)) == expected

    @rule(number=which, put=st.sampled_from(["disable", "enable", "drain", "enable", "enable", "remove"]))
    def put_a_node(self, number: int, put: str) -> None:
        """Who was removed joins anew."""
        position = number % len(NODES)
        self.run(getattr(self.works.nodes, put)(f"node {position}"))
        self.model.put(self.nodes[position], put)
        if put == "remove":
            self.nodes[position] = self._enrolled(position)

    # ---- the clock and the process

    @rule(seconds=st.sampled_from([70, 310, 310, 1130]))
    def pass_time(self, seconds: int) -> None:
        self.run(self.books.move_clock(seconds * 1000))
        self.model.now += seconds
        if self.model.overdue(SWEPT_S):
            self.sweep()

    @something_was_leased
    @rule()
    def look_after_leases(self) -> None:
        assert self.run(self.works.look_after_leases()) == self.model.look_after_leases()

    @there_are_tasks
    @rule()
    def sweep(self) -> None:
        assert self.run(self.works.desk.ledger.sweep()) == self.model.refund(self.model.overdue())

    @rule()
    def start_the_process_again(self) -> None:
        """As after a death: what the site was at is lost where no other process may be at it."""
        self.run(self._start_again())
        if self.books.db.single_process:
            lost = [task for task in self.model.tasks if task.at_site]
            assert self.run(self.works.desk.ledger.recover()) == self.model.refund(lost)

    async def _start_again(self) -> None:
        await self.process.aclose()
        await self.books.db.close()
        self.books.db = await self.books.open_again()
        self.works = await self.process.enter_async_context(works_on(self.books, lease_s=LEASE_S))

    # ---- what must hold

    @invariant()
    def the_books_are_as_the_model_has_them(self) -> None:
        assert self.run(self.books.audit()) == []
        assert dict(self._rows("SELECT id, balance FROM accounts")) == self.model.units
        for table, jobs in (("tasks", self.model.tasks), ("clones", self.model.voices)):
            rows = self._rows(f"SELECT id, status, epoch, tries, node_id FROM {table} ORDER BY id")
            assert rows == [(job.id, job.status, job.epoch, job.tries, job.node_id) for job in jobs]
        answers = dict(self._rows("SELECT call_id, answer FROM reservations"))
        assert answers == {task.call_id: task.answer for task in self.model.tasks if task.reserved}

    def _rows(self, sql: str, *args: object) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in self.run(self._fetched(sql, *args))]

    async def _fetched(self, sql: str, *args: object) -> Any:
        return await self.books.db.fetch(sql, *args)

    def teardown(self) -> None:
        self.run(self.process.aclose())
        self.run(self.opened.aclose())


@pytest.mark.parametrize("database, examples", [("sqlite", 100), ("postgresql", 15)])
def test_whatever_happens_the_queue_is_as_the_model_has_it(
    database: str, examples: int, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    numbers = itertools.count()

    @contextlib.asynccontextmanager
    async def new_books() -> AsyncIterator[Books]:
        folder = tmp_path / str(next(numbers))
        if database == "sqlite":
            async with books_of("", folder) as books:
                yield books
            return
        postgres: Postgres = request.getfixturevalue("postgres")
        url = postgres.fresh_database()
        try:
            async with books_of(url, folder) as books:
                yield books
        finally:
            postgres.drop(url)

    Machine.new_books = staticmethod(new_books)
    gc.collect()  # finalizers that run while Hypothesis parses the rules upset CPython (gh-106905)
    with asyncio.Runner() as Machine.runner:
        run_state_machine_as_test(
            Machine,
            settings=settings(
                max_examples=EXAMPLES or examples,
                derandomize=not EXAMPLES,
                stateful_step_count=STEPS,
                phases=set(Phase) - {Phase.explain},
                deadline=None,
                database=None,
                print_blob=True,
                suppress_health_check=list(HealthCheck),
            ),
        )

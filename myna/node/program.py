"""The node at work: it tells the site what it can do, asks for jobs, does them, and is heard while it does.

    hello ──► lease ──► lease ──► …        one long poll at a time, for the slots that are free
      ▲         │
      └─────────┘ the site was away, or the engines can do something else now
    beat, beat, …                          as long as something is held

The first signal ends it in order: no more jobs, what is held may be finished, the rest is handed back. The
second one hands back at once.
"""

import asyncio
import logging
import signal
from types import TracebackType
from typing import Final

import msgspec

from myna import __version__
from myna.errors import CommandError
from myna.node.engines import Engines
from myna.node.held import Holding, Holdings
from myna.node.outage import Outage, Tries
from myna.node.references import References
from myna.node.site import NotAdmitted, Site, SiteFailed, TooOld, Unfit
from myna.node.work import Work
from myna.wire.farm import POLL_MAX_S, Beat, Beats, Hello, Job, Lease, Welcome

KNOCK_EVERY_S: Final = 30.0
"""How often a node that isn't let in asks whether it is by now."""
BEAT_LEAST_S: Final = 0.05
GOODBYE_S: Final = 3.0
LAST_JOBS_S: Final = 0.5
"""After the goodbye, for jobs that were on their way before it."""
HAND_BACK_S: Final = 5.0
THE_NODE_GOES: Final = "the node goes"
NOT_LET_IN: Final = "the site doesn't let this node in"
_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)

log = logging.getLogger(__name__)


class Ending:
    """What the process is told by signals: to end in order, and then to end at once."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self.asked: asyncio.Future[None] = self._loop.create_future()
        self.urged: asyncio.Future[None] = self._loop.create_future()

    def __enter__(self) -> "Ending":
        for number in _SIGNALS:
            self._loop.add_signal_handler(number, self.tell)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number in _SIGNALS:
            self._loop.remove_signal_handler(number)

    def tell(self) -> None:
        """What a signal does."""
        for future in (self.asked, self.urged):
            if not future.done():
                future.set_result(None)
                return


class Program:
    """A node with engines that run, for `slots` jobs at a time."""

    def __init__(
        self,
        site: Site,
        engines: Engines,
        work: Work,
        references: References,
        outage: Outage,
        *,
        slots: int,
        chars_per_s: float,
        knock_every_s: float = KNOCK_EVERY_S,
    ) -> None:
        self._site, self._engines, self._work, self._references = site, engines, work, references
        self._outage = outage
        self._slots, self._chars_per_s, self._knock_every_s = slots, chars_per_s, knock_every_s
        self._holdings = Holdings(slots)
        self._greeting = asyncio.Lock()
        self._leaving = False
        self._said: Hello | None = None
        self._poll_s = self._beat_s = 0.0  # the site says, before there is any job

    async def run(self, ending: Ending, grace_s: float) -> None:
        """Works until it is told to end. Raises TooOld, or CommandError where its voices aren't taken."""
        hopeless: list[BaseException] = []
        try:
            async with asyncio.TaskGroup() as group:
                beating = group.create_task(self._beat())
                asking = group.create_task(self._ask(group))
                await asyncio.wait({ending.asked})
                await self._leave(asking, ending, grace_s)
                beating.cancel()
        except* (TooOld, CommandError) as refused:
            hopeless += refused.exceptions
        if hopeless:
            raise hopeless[0]

    # What it asks for

    async def _ask(self, group: asyncio.TaskGroup) -> None:
        tries = Tries(self._outage)
        while not self._leaving:
            try:
                await self._greet()
                tries.well()
                while not self._leaving:
                    await self._lease(group)
                    tries.well()
            except TooOld:
                raise
            except NotAdmitted as refused:
                self._holdings.drop_all(NOT_LET_IN)
                await asyncio.sleep(tries.failed(refused, self._knock_every_s))
            except SiteFailed as failed:
                await asyncio.sleep(tries.failed(failed))

    async def _greet(self) -> None:
        """Says what the node can do, and says in the log what the site was told where that is new."""
        async with self._greeting:
            if self._leaving:
                return
            hello = self._hello()
            try:
                welcome = await self._site.hello(hello)
            except Unfit as refused:
                raise CommandError(f"The service doesn't take what this node offers: {refused}") from None
            if hello != self._said:
                self._tell_of(hello, welcome)
            self._said = hello
            self._poll_s = min(max(welcome.poll_max_s, 0.0), POLL_MAX_S)
            self._beat_s = max(welcome.beat_s, BEAT_LEAST_S)

    def _hello(self) -> Hello:
        voices, clones = self._engines.offer()
        return Hello(voices, clones, self._slots, round(self._chars_per_s, 1), __version__)

    def _tell_of(self, hello: Hello, welcome: Welcome) -> None:
        log.info(
            "connected to %s as %s: %d voices (%s), clones in %s, %d jobs at a time, %.0f characters/s",
            *(self._site.url, welcome.name, len(hello.voices), ", ".join(v.voice_id for v in hello.voices)),
            *(", ".join(hello.clones) or "no language", hello.slots, hello.chars_per_s),
        )

    async def _lease(self, group: asyncio.TaskGroup) -> None:
        """Jobs for the slots that are free, and forgets the references that the site names."""
        await self._holdings.room.wait()
        if self._leaving:
            return
        if self._hello() != self._said:
            await self._greet()
        wanted = Lease(self._holdings.free(), self._poll_s, self._references.kept())
        leased = await self._site.lease(wanted)
        for sha256 in leased.forget:
            if self._references.forget(sha256):
                log.info("forgot the reference %s", sha256[:12])
        for job in leased.jobs:
            self._begin(job, group)

    def _begin(self, job: Job, group: asyncio.TaskGroup) -> None:
        holding = Holding(job)
        if holding not in self._holdings:
            self._holdings.add(holding)
            holding.begin(self._work.do(holding), group).add_done_callback(lambda _: self._end(holding))

    def _end(self, holding: Holding) -> None:
        self._holdings.remove(holding)
        if holding.dropped:
            log.info("%s: dropped: %s", holding.name, holding.dropped)

    # How it is heard

    async def _beat(self) -> None:
        tries = Tries(self._outage)
        pause_s = self._beat_s
        while True:
            if not len(self._holdings):
                tries.give_up()
                await self._holdings.some.wait()
                pause_s = self._beat_s
            await asyncio.sleep(pause_s)
            pause_s = self._beat_s
            try:
                await self._beat_once()
                tries.well()
            except TooOld:
                raise
            except NotAdmitted:
                self._holdings.drop_all(NOT_LET_IN)
            except SiteFailed as failed:
                pause_s = min(tries.failed(failed), self._beat_s)

    async def _beat_once(self) -> None:
        beaten = list(self._holdings)
        sent_at = asyncio.get_running_loop().time()
        beats = [Beat(holding.held, holding.progress) for holding in beaten]
        heard = await self._site.beat(Beats(beats), within_s=self._beat_s)
        cancelled = {(held.kind, held.id, held.epoch) for held in heard.cancel}
        for holding in beaten:
            if holding.key not in cancelled:
                holding.extend(sent_at + heard.lease_s)
            elif not holding.on_its_way:
                holding.drop("the site took it back")

    # How it ends

    async def _leave(self, asking: asyncio.Task[None], ending: Ending, grace_s: float) -> None:
        """What is held may be finished while beats go on; then the rest is handed back."""
        log.info("leaving; jobs under way: %d", len(self._holdings))
        self._leaving = True
        finished = asyncio.create_task(self._stop_asking(asking))
        await asyncio.wait({finished, ending.urged}, timeout=grace_s, return_when=asyncio.FIRST_COMPLETED)
        finished.cancel()
        asking.cancel()
        self._holdings.drop_all(THE_NODE_GOES)
        left = [holding for holding in self._holdings if holding.dropped == THE_NODE_GOES]
        await self._holdings.none.wait()
        try:
            async with asyncio.timeout(HAND_BACK_S):
                await asyncio.gather(*map(self._work.hand_back, left))
        except TimeoutError:
            log.warning("not all jobs could be handed back in time; their leases run out")

    async def _stop_asking(self, asking: asyncio.Task[None]) -> None:
        """Takes no more jobs, and waits for the end of those that are held."""
        try:
            async with asyncio.timeout(GOODBYE_S), self._greeting:
                await self._site.hello(msgspec.structs.replace(self._hello(), leaving=True))
        except (SiteFailed, TimeoutError) as failed:
            log.info("the site doesn't hear the goodbye: %s", failed)
        await asyncio.wait({asking}, timeout=LAST_JOBS_S)
        asking.cancel()
        await self._holdings.none.wait()

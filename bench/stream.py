"""`make bench-stream`: streams through Myna, the bare floor, nginx and the peers, in one run.

Each contender has core 0, the load and its upstream are one process on core 1 (see `stream_load`). Rounds
are interleaved; the other contenders are paused during each of them.
"""

import contextlib
import select
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import msgspec

from bench import contenders, load, processes, results, upstream
from bench.commits import Commits, CommitTimes
from bench.contenders import ROOT, Setup
from bench.fill import Size
from bench.goals import OPENAI_PATH
from bench.load import CHAT_PATH, Figures, Target, Work
from bench.processes import CannotRun
from bench.results import Machine
from bench.stream_load import GRACE_S, Job, Outcome
from bench.stream_load import medians as outcome_medians
from tests.rig.processes import tethered

STREAMS, CHUNKS = 64, 200
OPEN_STREAMS = 2000
RATE_OF_FLOOR = 0.5
FIRST_CHUNKS = 2
WARM_S = 1.0
SECONDS_MAX = 20.0
SAMPLED_EVERY_S = 0.2
JOB_MAX_S = 6 * GRACE_S
COMMITS_S = 1.0
CONNECTIONS_MAX = "4096"
WHOLE = {"v1": CHAT_PATH, "openai-v1": OPENAI_PATH}
STREAMING = (
    contenders.SQLITE, contenders.BARE_FLOOR, contenders.NGINX, contenders.PORTKEY_GATEWAY,
    contenders.LITELLM_PROXY,
)  # fmt: skip
"""Those of the contenders that pass streams on."""


class StreamFigures(msgspec.Struct, frozen=True):
    """The medians of a contender. `open` is whether it was measured with many open streams: the delays and
    the memory are 0 otherwise. CPU in milliseconds for 1,000 chunks."""

    first_ms: float
    chunks_s: float
    cpu_ms_per_1000: float
    delay_p50_ms: float
    delay_p99_ms: float
    kb_per_stream: float
    open: bool
    streams: int
    broken: int


class Streams(msgspec.Struct):
    """A whole run. `whole` has the whole calls of Myna by path, `rate` the chunks per second in all with
    `open_streams`."""

    machine: Machine
    versions: dict[str, str]
    rounds_of_s: tuple[int, int]
    chunks: int
    open_streams: int
    rate: float
    medians: dict[str, StreamFigures]
    whole: dict[str, Figures]
    missing: dict[str, str]
    commits: Commits


class Ran(msgspec.Struct, frozen=True):
    """A job's outcome, the CPU seconds of the contender for 1,000 chunks, and by how much its memory grew."""

    outcome: Outcome
    cpu_s_per_1000: float
    grown_bytes: int


class StreamLoad:
    """The process of the load."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        assert process.stdin is not None and process.stdout is not None
        self._jobs, self._outcomes = process.stdin, process.stdout
        self.port = int(self._line(JOB_MAX_S))

    @classmethod
    @contextlib.contextmanager
    def running(cls) -> Iterator["StreamLoad"]:
        on = ",".join(map(str, processes.cores().load))
        command = ["taskset", "-c", on, *tethered([sys.executable, "-m", "bench.stream_load"])]
        with subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT
        ) as process:
            try:
                yield cls(process)
            finally:
                process.kill()

    def run(self, job: Job, target: Target | None) -> Ran:
        """Does the job and watches the target during it. Raises CannotRun."""
        cpu_s = target.program.cpu_s() if target else 0.0
        before = peak = _memory_bytes(target)
        self._jobs.write(msgspec.json.encode(job).decode() + "\n")
        self._jobs.flush()
        until = time.monotonic() + JOB_MAX_S + job.seconds
        while not self._readable(SAMPLED_EVERY_S):
            peak = max(peak, _memory_bytes(target))
            if time.monotonic() > until:
                raise CannotRun("the load did not end its streams in time")
        outcome = msgspec.json.decode(self._line(SAMPLED_EVERY_S), type=Outcome)
        used_s = target.program.cpu_s() - cpu_s if target else 0.0
        thousands = max(outcome.chunks_s * job.seconds, 1) / 1000
        return Ran(outcome=outcome, cpu_s_per_1000=used_s / thousands, grown_bytes=peak - before)

    def _readable(self, wait_s: float) -> bool:
        return bool(select.select([self._outcomes], [], [], wait_s)[0])

    def _line(self, wait_s: float) -> str:
        line = self._outcomes.readline() if self._readable(wait_s) else ""
        if not line:
            raise CannotRun("the load has ended")
        return line


def measure(
    folder: Path, rounds: int, seconds: int, wanted: list[str], open_streams: int = OPEN_STREAMS
) -> Streams:
    """Starts everybody, then measures in turns."""
    missing: dict[str, str] = {}
    with ExitStack() as stack:
        driver = stack.enter_context(StreamLoad.running())
        setup = Setup(folder, f"http://127.0.0.1:{driver.port}", None)
        targets: dict[str, Target | None] = {contenders.DIRECT: None}
        for name in STREAMING:
            if name in wanted:
                target = contenders.started(stack, name, _start(name, setup), missing)
                targets |= {name: target} if target else {}
        disk = CommitTimes(folder / "commits")
        stack.callback(disk.close)
        commits: list[Commits] = []
        closed = _closed_rounds(driver, targets, rounds, seconds, disk, commits)
        floor = closed.get(contenders.BARE_FLOOR, closed[contenders.DIRECT])
        rate = RATE_OF_FLOOR * statistics.median(ran.outcome.chunks_s for _, ran in floor)
        paced = _paced_rounds(driver, targets, closed, rate, rounds, seconds, open_streams)
        return Streams(
            machine=results.machine(folder),
            versions=contenders.versions(setup),
            rounds_of_s=(rounds, seconds),
            chunks=CHUNKS,
            open_streams=open_streams,
            rate=rate,
            medians={name: _figures(closed[name], paced.get(name, []), open_streams) for name in targets},
            whole=whole_calls(folder, rounds, seconds) if contenders.SQLITE in targets else {},
            missing=missing,
            commits=load.medians(commits),
        )


def whole_calls(folder: Path, rounds: int, seconds: int) -> dict[str, Figures]:
    """Whole calls of Myna on both base paths, with an upstream that answers at once."""
    with ExitStack() as stack:
        setup = Setup(folder / "whole", "", None)
        setup.folder.mkdir()
        setup = setup._replace(upstream_url=stack.enter_context(upstream.instant(setup.folder)))
        myna = stack.enter_context(contenders.start(contenders.SQLITE, setup))
        targets = [
            load.target_of(name, myna.port, myna.program, setup.folder, myna.work._replace(path=path))
            for name, path in WHOLE.items()
        ]
        found = load.alternate(targets, STREAMS, rounds, seconds)
        return {WHOLE[name]: load.medians(figures) for name, figures in found.items()}


def _start(name: str, setup: Setup) -> contextlib.AbstractContextManager[Target]:
    """The contender, as it passes streams on."""
    if name == contenders.SQLITE:
        settings = {"MYNA_OUTBOUND_CONNECTIONS_MAX": CONNECTIONS_MAX}
        work = Work(path=OPENAI_PATH, keys=Size().keys)
        return contenders.myna(name, setup, work, settings=settings)
    if name == contenders.BARE_FLOOR:
        return contenders.bare_floor(setup, Work())
    if name == contenders.NGINX:
        return contenders.nginx(setup, Work(), buffering=False)
    return contenders.start(name, setup)


def _job(driver: StreamLoad, target: Target | None, *, streams: int, seconds: float) -> Job:
    if target is None:
        return Job(port=driver.port, path=CHAT_PATH, streams=streams, seconds=seconds)
    work = target.work
    return Job(
        port=target.port,
        path=work.path,
        streams=streams,
        seconds=seconds,
        keys=work.keys,
        bearer=work.bearer,
        headers=list(work.headers),
    )


def _closed_rounds(
    driver: StreamLoad,
    targets: dict[str, Target | None],
    rounds: int,
    seconds: int,
    disk: CommitTimes,
    commits: list[Commits],
) -> dict[str, list[tuple[Ran, Ran]]]:
    """For each contender the rounds of one stream and of many, each chunk after the one before. A round is
    `seconds` long, or as long as it takes a slow contender to end its streams."""
    found: dict[str, list[tuple[Ran, Ran]]] = {name: [] for name in targets}
    lasts_s = dict.fromkeys(targets, min(WARM_S, seconds))
    for number in range(rounds + 1):
        names = list(targets)
        for name in names if number % 2 else reversed(names):
            target = targets[name]
            with _resumed(target):
                job = _job(driver, target, streams=1, seconds=seconds)
                alone = driver.run(msgspec.structs.replace(job, chunks=FIRST_CHUNKS), target)
                job = _job(driver, target, streams=STREAMS, seconds=lasts_s[name])
                many = driver.run(msgspec.structs.replace(job, chunks=CHUNKS), target)
            if number:
                found[name].append((alone, many))
            else:
                whole_s = STREAMS * CHUNKS / max(many.outcome.chunks_s, 1)
                lasts_s[name] = max(seconds, min(whole_s, SECONDS_MAX))
        if number:
            commits.append(disk.round(COMMITS_S))
    return found


def _paced_rounds(
    driver: StreamLoad,
    targets: dict[str, Target | None],
    closed: dict[str, list[tuple[Ran, Ran]]],
    rate: float,
    rounds: int,
    seconds: int,
    open_streams: int,
) -> dict[str, list[Ran]]:
    """For each contender that can do `rate` chunks a second, the rounds with many open streams."""
    able = [
        name
        for name, of in closed.items()
        if statistics.median(many.outcome.chunks_s for _, many in of) > rate
    ]
    found: dict[str, list[Ran]] = {name: [] for name in able}
    for _ in range(rounds):
        for name in able:
            with _resumed(targets[name]):
                job = _job(driver, targets[name], streams=open_streams, seconds=seconds)
                found[name].append(driver.run(msgspec.structs.replace(job, rate=rate), targets[name]))
    return found


def _figures(closed: list[tuple[Ran, Ran]], paced: list[Ran], open_streams: int) -> StreamFigures:
    alone = outcome_medians([one.outcome for one, _ in closed])
    many = outcome_medians([ran.outcome for _, ran in closed])
    loaded = outcome_medians([ran.outcome for ran in paced]) if paced else None
    cpu_s = statistics.median(ran.cpu_s_per_1000 for _, ran in closed)
    # The first of these rounds: a process may keep the memory for the next ones.
    grown = max((ran.grown_bytes for ran in paced), default=0)
    every = [alone, many, *([loaded] if loaded else [])]
    return StreamFigures(
        first_ms=alone.first_ms,
        chunks_s=many.chunks_s,
        cpu_ms_per_1000=cpu_s * 1e3,
        delay_p50_ms=loaded.delay_p50_ms if loaded else 0.0,
        delay_p99_ms=loaded.delay_p99_ms if loaded else 0.0,
        kb_per_stream=grown / open_streams / 1e3,
        open=loaded is not None,
        streams=sum(one.streams for one in every),
        broken=sum(one.broken for one in every),
    )


@contextlib.contextmanager
def _resumed(target: Target | None) -> Iterator[None]:
    if target:
        target.program.resume()
    try:
        yield
    finally:
        if target:
            target.program.pause()


def _memory_bytes(target: Target | None) -> int:
    """Resident memory of the contender and its children."""
    pids = processes.tree(target.program.pid) if target else []
    return sum(map(processes.memory_bytes, pids))

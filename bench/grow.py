"""`make bench-grow`: one thing grows, all else stays; each size has a filled database and its own server.

Servers of one curve take turns, so that sizes are compared within one run.
"""

import time
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path

import msgspec

from bench import contenders, fill, load, processes, results
from bench.contenders import Setup
from bench.fill import Size
from bench.load import Figures, Target, Work
from bench.processes import CannotRun
from bench.results import Machine
from bench.table import set_up

ROWS = (10**3, 10**4, 10**5, 10**6)
ROWS_FULL = (*ROWS, 10**7)
ACCOUNTS = (1, 10, 10_000)
ACCOUNT_KEYS = 10_000
KEYS = (10, 1000, 100_000, 1_000_000)
CONNECTIONS = (1, 8, 64, 512, 2000)
REQUEST_BYTES = (300, 3000, 30_000, 300_000)
AT = 64
"""Connections, wherever they aren't what grows."""
PAGE, FAR_PAGE = 100, 1000
FAR_RECORDS = "/records, page 1,000 or the last"
SAMPLE_EVERY_S = 5


class Sample(msgspec.Struct):
    """Memory of the serving process: all of it, and without files such as the database's own pages."""

    seconds: float
    resident_bytes: int
    anonymous_bytes: int


class Growth(msgspec.Struct):
    """A whole run. `curves` by what grows, then by its size; `reads` by rows, then by path."""

    machine: Machine
    versions: dict[str, str]
    database: str
    rounds_of_s: tuple[int, int]
    curves: dict[str, dict[str, Figures]]
    reads: dict[str, dict[str, Figures]]
    memory: list[Sample]
    rest_bytes: int


class Grower:
    """Measures one database, SQLite or PostgreSQL."""

    def __init__(self, setup: Setup, on_postgresql: bool, rounds: int, seconds: int) -> None:
        self._setup = setup
        self._on_postgresql = on_postgresql
        self._rounds = rounds
        self._seconds = seconds
        self._numbers = iter(range(1_000_000))

    def sizes(self, sizes: dict[str, Size]) -> tuple[dict[str, Figures], dict[str, dict[str, Figures]]]:
        """Calls at every size, and reads at every size that has rows."""
        with ExitStack() as stack:
            targets = {name: self._server(stack, size) for name, size in sizes.items()}
            named = [target._replace(name=name) for name, target in targets.items()]
            calls = _medians(load.alternate(named, AT, self._rounds, self._seconds))
            reads = {name: self._reads(targets[name], size) for name, size in sizes.items() if size.rows}
            return calls, reads

    def connections(self, many: Iterable[int]) -> dict[str, Figures]:
        """One server, more and more connections."""
        with ExitStack() as stack:
            target = self._server(stack, Size())
            turns = {
                str(one): load.alternate([target], one, self._rounds, self._seconds)[target.name]
                for one in many
            }
            return _medians(turns)

    def request_sizes(self, sizes: Iterable[int]) -> dict[str, Figures]:
        """One server, longer and longer conversations."""
        with ExitStack() as stack:
            target = self._server(stack, Size())
            works = {str(size): _of_size(size) for size in sizes}
            aimed = [self._aim(target, work)._replace(name=name) for name, work in works.items()]
            return _medians(load.alternate(aimed, AT, self._rounds, self._seconds))

    def memory(self, minutes: float) -> tuple[list[Sample], int]:
        """Memory under load, sampled every few seconds, and the bytes that it used idle before."""
        samples: list[Sample] = []
        with ExitStack() as stack:
            target = self._server(stack, Size())
            idle = target.program.memory_bytes()
            start = time.monotonic()
            while (passed := time.monotonic() - start) < minutes * 60:
                samples.append(_sample(target, passed))
                load.one_round(target, AT, SAMPLE_EVERY_S)
            samples.append(_sample(target, time.monotonic() - start))
        return samples, idle

    def _server(self, stack: ExitStack, size: Size) -> Target:
        name = f"{size.accounts}-{size.keys}-{size.rows}-{next(self._numbers)}"
        settings = {"MYNA_SPEECH": "espeak"} if size.rows else {}
        server = contenders.myna(
            name, self._setup, Work(keys=size.keys), size=size,
            on_postgresql=self._on_postgresql, settings=settings,
        )  # fmt: skip
        target = stack.enter_context(server)
        target.program.pause()
        return target

    def _aim(self, target: Target, work: Work) -> Target:
        number = next(self._numbers)
        return load.target_of(
            f"{target.name}-{number}", target.port, target.program, self._setup.folder, work, target.database
        )

    def _reads(self, target: Target, size: Size) -> dict[str, Figures]:
        """Every GET with the key that has half of all records, one client at a time."""
        found = {}
        for path in paths(size.rows):
            name, bearer = path[0], load.KEY_FORMAT % fill.READER
            aimed = self._aim(target, Work(method="GET", path=path[1], bearer=bearer))
            load.one_round(aimed, 1, 1)
            found[name] = load.medians([load.one_round(aimed, 1, self._seconds) for _ in range(self._rounds)])
            if found[name].failed_share:
                raise CannotRun(f"GET {path[1]} fails")
        target.program.pause()
        return found


def paths(rows: int) -> list[tuple[str, str]]:
    """What is read: a name and the path. The reader has every second record, so a page's place is known."""
    newest = (rows - 1) // 2 * 2 + 1
    offset = min(2 * PAGE * (FAR_PAGE - 1), newest // 2 // PAGE * PAGE * 2)
    return [
        ("/me", "/v1/me"),
        ("/voices", "/v1/voices"),
        ("/records, first page", "/v1/records"),
        (FAR_RECORDS, f"/v1/records?before={newest - offset + 1}"),
        ("/task", f"/v1/task?id={newest // 4 * 2 + 1}"),
    ]


def grow(folder: Path, name: str, rounds: int, seconds: int, minutes: float, full: bool) -> Growth:
    """Everything on one database: `sqlite` or `postgresql`."""
    with ExitStack() as stack:
        on_postgresql = name == "postgresql"
        setup = set_up(stack, folder, postgresql=on_postgresql)
        grower = Grower(setup=setup, on_postgresql=on_postgresql, rounds=rounds, seconds=seconds)
        rows, reads = grower.sizes({str(many): Size(rows=many) for many in (ROWS_FULL if full else ROWS)})
        keys, _ = grower.sizes({str(many): Size(min(many, 64), many) for many in KEYS})
        accounts, _ = grower.sizes({str(many): Size(many, ACCOUNT_KEYS) for many in ACCOUNTS})
        connections = grower.connections(CONNECTIONS)
        sizes = grower.request_sizes(REQUEST_BYTES)
        memory, idle = grower.memory(minutes)
        return Growth(
            machine=results.machine(folder),
            versions=contenders.versions(setup),
            database=name,
            rounds_of_s=(rounds, seconds),
            curves={
                "rows": rows,
                "keys": keys,
                "accounts": accounts,
                "connections": connections,
                "request bytes": sizes,
            },
            reads=reads,
            memory=memory,
            rest_bytes=idle,
        )


def _of_size(size_bytes: int) -> Work:
    """A conversation of about so many bytes."""
    missing = size_bytes - len(load.CHAT_BODY.encode())
    said = "You are a helpful assistant." + " All work and no play." * (max(0, missing) // 23)
    return Work(body=load.CHAT_BODY.replace("You are a helpful assistant.", said), keys=Size().keys)


def _medians(turns: dict[str, list[Figures]]) -> dict[str, Figures]:
    return {name: load.medians(figures) for name, figures in turns.items()}


def _sample(target: Target, seconds: float) -> Sample:
    pid = target.program.pid
    return Sample(seconds, processes.memory_bytes(pid), processes.memory_bytes(pid, "RssAnon"))

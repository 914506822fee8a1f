"""`make bench`: one table of all contenders at 1, 64 and 512 connections, in one run."""

import sys
from contextlib import ExitStack
from pathlib import Path

import msgspec

from bench import contenders, load, processes, results, upstream
from bench.commits import Commits, CommitTimes
from bench.contenders import Setup
from bench.load import Figures, Target
from bench.results import Machine

CONNECTIONS = (1, 64, 512)
QUICK = (1, 64)
COMMITS_SHARE = 0.25
"""Share of a round's length for which bare commits, and then pairs, are timed after it."""


class Comparison(msgspec.Struct):
    """A whole run. `medians` by contender and connections; `rounds` has each round's figures likewise."""

    machine: Machine
    versions: dict[str, str]
    rounds_of_s: tuple[int, int]
    medians: dict[str, dict[str, Figures]]
    rounds: dict[str, dict[str, list[Figures]]]
    peak_bytes: dict[str, int]
    rest_bytes: dict[str, int]
    missing: dict[str, str]
    commits: Commits


def compare(
    folder: Path, rounds: int, seconds: int, wanted: list[str], connections: tuple[int, ...] = CONNECTIONS
) -> Comparison:
    """Starts everybody, then measures in turns."""
    missing: dict[str, str] = {}
    with ExitStack() as stack:
        setup = set_up(stack, folder)
        starting = {name: contenders.start(name, setup) for name in wanted}
        started = (contenders.started(stack, name, one, missing) for name, one in starting.items())
        targets = [target for target in started if target]
        rest = {target.name: target.program.memory_bytes() for target in targets}
        disk = CommitTimes(folder / "commits")
        stack.callback(disk.close)
        found, commits = _in_turns(targets, disk, rounds, seconds, connections)
        return Comparison(
            machine=results.machine(folder),
            versions=contenders.versions(setup),
            rounds_of_s=(rounds, seconds),
            medians={
                name: {many: load.medians(figures) for many, figures in by_connections.items()}
                for name, by_connections in found.items()
            },
            rounds=found,
            peak_bytes={target.name: target.program.peak_bytes() for target in targets},
            rest_bytes=rest,
            missing=missing,
            commits=commits,
        )


def set_up(stack: ExitStack, folder: Path, *, postgresql: bool = True) -> Setup:
    """Upstream and database, running until the stack ends."""
    upstream_url = stack.enter_context(upstream.instant(folder))
    database = None
    if postgresql:
        try:
            database = stack.enter_context(contenders.database())
        except (ImportError, OSError, RuntimeError) as error:
            print(f"PostgreSQL doesn't start: {error}", file=sys.stderr)
    return Setup(folder, upstream_url, database)


def _in_turns(
    targets: list[Target], disk: CommitTimes, rounds: int, seconds: int, wanted: tuple[int, ...]
) -> tuple[dict[str, dict[str, list[Figures]]], Commits]:
    found: dict[str, dict[str, list[Figures]]] = {target.name: {} for target in targets}
    commits: list[Commits] = []
    for connections in wanted:
        alone = (lambda: commits.append(disk.round(seconds * COMMITS_SHARE))) if connections == 1 else None
        turns = load.alternate(targets, connections, rounds, seconds, alone or (lambda: None))
        for name, figures in turns.items():
            found[name][str(connections)] = figures
    return found, load.medians(commits)


def wanted() -> list[str]:
    """All contenders that this benchmark knows."""
    return list(contenders.MEANINGS)


def need_tools() -> None:
    """Ends with a line that says what to install."""
    absent = [name for name in ("nginx", "wrk", "taskset") if not processes.installed(name)]
    if absent:
        sys.exit(f"Needed and not installed: {', '.join(absent)}; `make bench-setup` does it.")

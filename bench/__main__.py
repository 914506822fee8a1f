"""`make bench`: charged chat calls a second, against the floor of the same parts, in one run.

Rounds alternate between the contenders, so that a machine whose speed drifts treats them alike; medians are
printed and written to bench/results/chat.json.
"""

import argparse
import contextlib
import json
import os
import platform
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from bench import rig
from bench.rig import Figures

RESULTS = Path(__file__).parent / "results" / "chat.json"
CONNECTIONS = (1, 64, 512)
SPEAK = "none"


class Contender(NamedTuple):
    """A running program under test."""

    name: str
    port: int
    pid: int
    lua: Path


def main() -> None:
    options = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    options.add_argument("--rounds", type=int, default=5)
    options.add_argument("--seconds", type=float, default=5.0)
    options.add_argument("--postgresql", default=os.environ.get("MYNA_TEST_DATABASE_URL", ""))
    chosen = options.parse_args()
    if rig.missing():
        sys.exit(
            f"Needed and not installed: {', '.join(rig.missing())} (Debian packages nginx-light and wrk)."
        )
    with tempfile.TemporaryDirectory(prefix="myna-bench-") as name, contextlib.ExitStack() as stack:
        folder = Path(name)
        url = stack.enter_context(rig.upstream(folder))
        contenders = [
            stack.enter_context(contender(folder, "floor", url, "", ["-m", "bench.floor"])),
            stack.enter_context(contender(folder, "sqlite", url, "", ["-m", "myna", "serve"])),
        ]
        if chosen.postgresql:
            serve = ["-m", "myna", "serve"]
            contenders.append(
                stack.enter_context(contender(folder, "postgresql", url, chosen.postgresql, serve))
            )
        report(measure(contenders, chosen.rounds, chosen.seconds))


@contextlib.contextmanager
def contender(folder: Path, name: str, url: str, database: str, command: list[str]) -> Iterator[Contender]:
    data = folder / name
    lua = rig.script(folder, rig.issue_keys(database, data), name)
    port = rig.free_port()
    environ = {
        "MYNA_DATA": str(data),
        "MYNA_PORT": str(port),
        "MYNA_DATABASE_URL": database,
        "MYNA_CHAT_URL": url,
        "MYNA_SPEECH": SPEAK,
    }
    with rig.process([sys.executable, *command], rig.UNDER_TEST, folder / f"{name}.log", environ) as running:
        rig.wait_for(f"http://127.0.0.1:{port}/readyz")
        yield Contender(name, port, running.pid, lua)


def measure(contenders: list[Contender], rounds: int, seconds: float) -> dict[str, dict[int, list[Figures]]]:
    """Figures of every round, by contender and connections; one round before is thrown away."""
    found: dict[str, dict[int, list[Figures]]] = {one.name: {} for one in contenders}
    for connections in CONNECTIONS:
        for number in range(rounds + 1):
            for one in contenders:
                figures = rig.load(one.port, one.lua, connections, seconds if number else 1.0, one.pid)
                if number:
                    found[one.name].setdefault(connections, []).append(figures)
    return found


def report(found: dict[str, dict[int, list[Figures]]]) -> None:
    """A table on stdout, and everything in the results file."""
    medians = {
        name: {
            connections: Figures(*(statistics.median(column) for column in zip(*rounds, strict=True)))
            for connections, rounds in by_connections.items()
        }
        for name, by_connections in found.items()
    }
    print(f"{'':12}{'conn':>6}{'calls/s':>10}{'of floor':>10}{'p50 ms':>9}{'p99 ms':>9}{'CPU s/1000':>12}")
    for name, by_connections in medians.items():
        for connections, row in by_connections.items():
            ratio = row.calls / medians["floor"][connections].calls
            print(
                f"{name:12}{connections:>6}{row.calls:>10.0f}{ratio:>10.2f}"
                f"{row.p50_ms:>9.2f}{row.p99_ms:>9.2f}{row.cpu_s_per_1000:>12.3f}"
            )
    RESULTS.parent.mkdir(exist_ok=True)
    machine = {"cores": os.cpu_count(), "python": platform.python_version(), "time": int(time.time())}
    rows = {
        name: {str(connections): row._asdict() for connections, row in by_connections.items()}
        for name, by_connections in medians.items()
    }
    RESULTS.write_text(json.dumps({"machine": machine, "medians": rows}, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

"""`python -m bench WHAT`: table (the default), quick, grow, speech, neural, kokoro, parts, calls, stream;
page writes what was measured; reading FILE counts the texts that are read right.
"""

import argparse
import os
import sys
import tempfile
from pathlib import Path

from bench import (
    calls,
    goals,
    grow,
    kokoro,
    neural,
    page,
    parts,
    reading,
    reports,
    results,
    speech,
    stream,
    table,
)
from bench.install import PEERS

WHAT = ("table", "quick", "grow", "speech", "neural", "kokoro", "parts", "calls", "stream", "page", "reading")
TABLE, QUICK, GROW, SPEECH, NEURAL, KOKORO, PARTS, CALLS, STREAM, WRITE, READING = WHAT


def main() -> None:
    chosen = _options().parse_args()
    if chosen.what == READING:
        print(reading.table(chosen.file))
        return
    if chosen.what in (KOKORO, CALLS):
        with tempfile.TemporaryDirectory() as name:
            if chosen.what == CALLS:
                print(calls.table(calls.measure(Path(name)), functions=chosen.full))
            else:
                print(kokoro.tables(Path(name), chosen.rounds))
    elif chosen.what != WRITE:
        table.need_tools()
        PEERS.mkdir(parents=True, exist_ok=True)
        # Beside the checkout, so that commits are timed on the disk that data would be on.
        with tempfile.TemporaryDirectory(prefix="run-", dir=PEERS) as name:
            Path(name).chmod(0o755)
            _measure(chosen, Path(name))
    if chosen.what not in (QUICK, KOKORO, CALLS):
        page.write()


def _options() -> argparse.ArgumentParser:
    options = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    options.add_argument("what", nargs="?", default=TABLE, choices=WHAT)
    options.add_argument("file", nargs="?", type=Path, help="the texts of `reading`")
    options.add_argument("--rounds", type=int, default=5)
    options.add_argument("--seconds", type=int, default=4, help="of a round")
    options.add_argument("--only", nargs="+", metavar="NAME", choices=table.wanted(), default=table.wanted())
    options.add_argument(
        "--full", action="store_true", help="grow to 10^7 rows; name the functions of `calls`"
    )
    options.add_argument("--minutes", type=float, default=2, help="how long memory is watched")
    options.add_argument("--postgresql", action="store_true", help="grow on PostgreSQL instead of SQLite")
    return options


def _measure(chosen: argparse.Namespace, folder: Path) -> None:
    rounds, seconds = chosen.rounds, chosen.seconds
    if chosen.what in (TABLE, QUICK):
        quick = chosen.what == QUICK
        if quick:
            rounds, seconds = 1, 1
        compared = table.compare(
            folder, rounds, seconds, chosen.only, table.QUICK if quick else table.CONNECTIONS
        )
        name, where = ("quick", PEERS) if quick else ("table", results.RESULTS)
        path = results.write(name, compared, where)
        found = results.read(name, where)
        print(reports.comparison_rows(found))
        for absent, reason in compared.missing.items():
            print(f"{absent} is missing: {reason}")
        if not quick:
            print(goals.as_table(goals.all_goals({"table": found})))
    elif chosen.what == GROW:
        database = "postgresql" if chosen.postgresql else "sqlite"
        grown = grow.grow(folder, database, rounds, seconds, chosen.minutes, chosen.full)
        path = results.write(f"grow-{database}", grown)
    elif chosen.what == NEURAL:
        spoken = neural.measure(folder, rounds, seconds)
        path = results.write("neural", spoken)
        print(neural.table(spoken))
    elif chosen.what == STREAM:
        path = results.write("stream", stream.measure(folder, rounds, seconds, chosen.only))
        found = results.read("stream")
        print(reports.stream_rows(found))
        print(goals.as_table(goals.on_streams(found)))
    elif chosen.what == PARTS:
        path = results.write("parts", parts.measure())
        print(parts.table(results.read("parts")))
    else:
        path = results.write("speech", speech.measure(folder, rounds, seconds))
    print(f"written: {os.path.relpath(path)}", file=sys.stderr)


if __name__ == "__main__":
    main()

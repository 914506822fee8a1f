"""`make listen`: measures how well the voices are understood, for docs/project/voices-measured.md."""

import argparse
import os
import sys
import tempfile
from pathlib import Path

from listen import measure, report, results
from myna.errors import CommandError

ALL = 1000


def main() -> None:
    options = argparse.ArgumentParser(prog="python -m listen", description=__doc__)
    options.add_argument(
        "--each", type=int, default=ALL, help="how many sentences of each kind; all by default"
    )
    options.add_argument("--speech", default="auto", help="MYNA_SPEECH of the service")
    options.add_argument("--no-other-voices", action="store_true", help="only the two voices of each engine")
    options.add_argument("--write", action="store_true", help="measure nothing, only write the page again")
    options.add_argument("--resume", action="store_true", help="finish the run that was interrupted")
    chosen = options.parse_args()
    if not chosen.write:
        results.save(measured(chosen))
        results.UNFINISHED.unlink()
        print(f"written: {os.path.relpath(results.RESULTS)}", file=sys.stderr)
    report.write(results.load())


def measured(chosen: argparse.Namespace) -> results.Listening:
    """The results of a run, saved after every sentence. Exits with the reason where it can't be done."""
    if chosen.resume and not results.UNFINISHED.exists():
        sys.exit(f"there is no interrupted run in {os.path.relpath(results.UNFINISHED)}")
    before = results.load(results.UNFINISHED) if chosen.resume else None
    with tempfile.TemporaryDirectory() as folder:
        try:
            for found in measure.measure(
                Path(folder),
                chosen.speech,
                chosen.each,
                every_voice=not chosen.no_other_voices,
                before=before,
            ):
                results.save(found, results.UNFINISHED)
        except CommandError as reason:
            sys.exit(str(reason))
    return found


if __name__ == "__main__":
    main()

"""`make listen`: measures how well the voices are understood, and writes the figures into docs/voices.md."""

import argparse
import os
import sys
import tempfile
from pathlib import Path

from listen import measure, report, results
from listen.ear import CannotFetch
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
    chosen = options.parse_args()
    if not chosen.write:
        with tempfile.TemporaryDirectory() as folder:
            try:
                found = measure.measure(
                    Path(folder), chosen.speech, chosen.each, every_voice=not chosen.no_other_voices
                )
            except (CannotFetch, CommandError) as reason:
                sys.exit(str(reason))
        results.save(found)
        print(f"written: {os.path.relpath(results.RESULTS)}", file=sys.stderr)
    report.write(results.load())


if __name__ == "__main__":
    main()

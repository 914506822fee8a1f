"""What every demo does around its tour: Ctrl-C ends it in order, and a failure is told in a line."""

import os
import signal
import time
from collections.abc import Callable

from demo.paper import Paper
from demo.program import DemoFailed, Program
from myna.errors import ConfigError

FAILED, WRONG_USAGE, INTERRUPTED = 1, 2, 130
LOOK_EVERY_S = 0.2


def perform(play: Callable[[Paper], None]) -> int:
    """Plays it. The exit code: 0: all went well, or Ctrl-C ended it; 1: something failed; 2: a setting is
    wrong; 130: Ctrl-C in the middle."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):  # all of them are Ctrl-C
        signal.signal(number, signal.default_int_handler)
    paper = Paper()
    try:
        play(paper)
    except ConfigError as error:
        paper.failure(str(error))
        return WRONG_USAGE
    except (DemoFailed, OSError) as error:
        paper.failure(str(error), getattr(error, "__notes__", ()))
        return FAILED
    except KeyboardInterrupt:
        paper.failure("interrupted.")
        return INTERRUPTED
    return 0


def ends_by_itself() -> bool:
    """Whether the demo is over with its tour, instead of going on until Ctrl-C."""
    return os.environ.get("ONCE", "") not in ("", "0")


def go_on(paper: Paper, *programs: Program) -> None:
    """Until Ctrl-C. Raises DemoFailed when one of the programs ends by itself."""
    try:
        while True:
            for program in programs:
                program.check()
            time.sleep(LOOK_EVERY_S)
    except KeyboardInterrupt:
        paper.title("\nStopping; open calls finish first.")

"""Runs a demo: Ctrl-C shuts down cleanly, and a failure is one line."""

import os
import signal
import time
from collections.abc import Callable

from demo.output import Output
from demo.program import DemoFailed, Program
from myna.errors import ConfigError

FAILED, WRONG_USAGE, INTERRUPTED = 1, 2, 130
LOOK_EVERY_S = 0.2


def run_demo(demo: Callable[[Output], None]) -> int:
    """Runs a demo. Returns the exit code.

    0: all steps succeeded, or Ctrl-C after them; 1: a step failed; 2: a setting is wrong; 130: Ctrl-C before
    the end."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):  # all of them are Ctrl-C
        signal.signal(number, signal.default_int_handler)
    output = Output()
    try:
        demo(output)
    except ConfigError as error:
        output.failure(str(error))
        return WRONG_USAGE
    except (DemoFailed, OSError) as error:
        output.failure(str(error), getattr(error, "__notes__", ()))
        return FAILED
    except KeyboardInterrupt:
        output.failure("interrupted.")
        return INTERRUPTED
    return 0


def stops_after_tour() -> bool:
    """Whether the demo exits after its last step, instead of serving until Ctrl-C."""
    return os.environ.get("ONCE", "") not in ("", "0")


def keep_running(output: Output, *programs: Program) -> None:
    """Waits until Ctrl-C. Raises DemoFailed if one of the programs exits."""
    try:
        while True:
            for program in programs:
                program.check()
            time.sleep(LOOK_EVERY_S)
    except KeyboardInterrupt:
        output.title("\nStopping; open calls finish first.")

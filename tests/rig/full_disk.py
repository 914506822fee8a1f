"""The real command line with a limit on the size of files, like a full disk."""

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from tests.rig.commands import COMMAND_DEADLINE_S, Ended
from tests.rig.tether import tethered

_LIMITED: Final = (
    "import os, resource, sys;"
    "size = int(sys.argv[1]);"
    "resource.setrlimit(resource.RLIMIT_FSIZE, (size, size));"
    "os.execv(sys.executable, [sys.executable, '-m', 'myna', *sys.argv[2:]])"
)


def on_full_disk(file_max_bytes: int, arguments: list[str], env: Mapping[str, str], cwd: Path) -> Ended:
    """Runs `myna ARGUMENTS…`; neither it nor its children can make a file longer than this.

    They cache no compiled modules, which would be cut at the limit and fail every later process.
    """
    ended = subprocess.run(
        tethered([sys.executable, "-c", _LIMITED, str(file_max_bytes), *arguments]),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        env={**env, "PYTHONDONTWRITEBYTECODE": "1"},
        cwd=cwd,
        timeout=COMMAND_DEADLINE_S,
        text=True,
        check=False,
    )
    return Ended(ended.returncode, ended.stdout, ended.stderr)

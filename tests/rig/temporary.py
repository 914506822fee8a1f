"""The folder for the files of tests: in memory, if the machine has enough."""

import os
import shutil
import tempfile
from pathlib import Path

MEMORY = Path("/dev/shm")  # noqa: S108 - every user of it makes a folder with a random name
NEEDED_BYTES = 4 * 2**30
"""Room for two workers' folders and PostgreSQL servers, 1.2 GiB at their largest, and as much again."""


def folder() -> Path:
    """An existing folder for temporary files: TMPDIR where it is set, or memory, or the system's default."""
    usable = "TMPDIR" not in os.environ and MEMORY.is_dir() and os.access(MEMORY, os.W_OK)
    if usable and shutil.disk_usage(MEMORY).free >= NEEDED_BYTES:
        return MEMORY
    return Path(tempfile.gettempdir())

"""What was written is there after a loss of power too; what was broken off isn't there."""

import logging
import os
import sys
from pathlib import Path

log = logging.getLogger(__name__)


def make_durable(path: Path) -> None:
    """The file's bytes and its name are on disk. Whoever wrote it may have closed it, or be another process.

    Waits for the disk, so it belongs in a thread. Raises OSError, on Linux also for what the kernel failed to
    write since the writer closed it, if it still remembers.
    """
    handle = os.open(path, os.O_RDWR)  # Windows takes no other for it
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Makes new names in the folder durable; Windows has no such call and keeps names in its journal."""
    if sys.platform != "win32":
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def remove(*paths: Path) -> None:
    """What a job that was broken off has left. What stays all the same is logged, without its path: whoever
    clears up has a failure of its own to tell."""
    for path in paths:
        try:
            path.unlink()
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:  # the disk, or Windows while a thread still has the file open
            log.warning("a file of a job that was broken off stays: %s", error.strerror)

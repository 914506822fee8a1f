"""Makes files durable, and removes what a failed job left."""

import logging
import os
from pathlib import Path

log = logging.getLogger(__name__)


def make_durable(path: Path) -> None:
    """Waits until the file's data and its name are on disk. The writer may have closed it or be another
    process.

    Blocks on disk I/O, so it belongs in a thread. Raises OSError, on Linux also for a failed write since the
    writer closed the file, if the kernel has not dropped the error.
    """
    handle = os.open(path, os.O_RDWR)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Makes new names in the folder durable."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def remove(*paths: Path) -> None:
    """Removes the files of a failed job. A file that can't be removed is logged without its path, and no
    error is raised, since the caller reports its own."""
    for path in paths:
        try:
            path.unlink()
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            log.warning("a file of a failed job was not removed: %s", error.strerror)

"""Free space on the file systems of the data folder, and the reserve that new audio must leave free."""

import logging
import shutil
from functools import partial
from pathlib import Path

from myna.errors import DiskFull
from myna.lib.files import DiskThreads
from myna.lib.telemetry import metrics

log = logging.getLogger(__name__)

_FOLDERS = ("", "audio", "samples")
"""In the data folder. Each may be on another file system."""
_MIB = 2**20


class FreeSpace:
    """Whether new audio may be stored, as of the last `refresh`."""

    def __init__(self, data_folder: Path, reserve_bytes: int) -> None:
        self._folder = data_folder
        self._reserve_bytes = reserve_bytes
        self._disk = DiskThreads(1)
        self.low = False

    async def refresh(self) -> None:
        """Reads the free space in a thread, since a disk may stall. Logs when it falls below the reserve and
        when it is above it again."""
        free_bytes = await self._disk.run(partial(smallest, self._folder))
        metrics.DISK_FREE_BYTES.set(free_bytes)
        low = free_bytes < self._reserve_bytes
        if low != self.low:
            self.low = low
            level, change = (logging.ERROR, "refused") if low else (logging.WARNING, "accepted again")
            log.log(
                level,
                "speech and uploads are %s: the data folder's disk has %d MiB free, the reserve is %d MiB",
                *(change, free_bytes // _MIB, self._reserve_bytes // _MIB),
            )

    def check(self) -> None:
        """Raises DiskFull below the reserve."""
        if self.low:
            raise DiskFull


def smallest(data_folder: Path) -> int:
    """The least free bytes of the data folder's file systems. Blocks on the disk."""
    folders = [data_folder / name for name in _FOLDERS]
    return min(shutil.disk_usage(folder).free for folder in folders if folder.is_dir())

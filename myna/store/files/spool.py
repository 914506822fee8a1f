"""Temporary files of requests: sound that a slow client has not read yet, and uploads that are being read.

They are in a separate folder, since the system's folder for temporary files may be in memory, and since
confined processes open the files by their names.
"""

import secrets
from pathlib import Path
from typing import Final

from myna.store.files.storage import FOLDER_MODE

_SUFFIX: Final = ".tmp"


class Spool:
    """The folder. All methods except `new` block on the disk and must run in a thread."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def prepare(self) -> None:
        """Creates the folder."""
        self.folder.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)

    def new(self) -> Path:
        """The path of a new file. Who creates it removes it."""
        return self.folder / (secrets.token_hex(16) + _SUFFIX)

    def remove_old(self, before: float) -> int:
        """Removes the files last written before `before` (Unix seconds), which a killed process has left.
        Returns how many."""
        removed = 0
        for path in self.folder.glob(f"*{_SUFFIX}"):
            try:
                if path.stat().st_mtime < before:
                    path.unlink()
                    removed += 1
            except FileNotFoundError:  # removed concurrently
                continue
        return removed

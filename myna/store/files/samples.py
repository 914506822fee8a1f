"""Stored samples of voices: `samples/ab/<32 hex>.wav` in the storage, private to the service's user.

A sample is sent only to a compute node that has leased a job in its voice.
"""

import os
from pathlib import Path

from myna.store.files.named_files import NamedFiles
from myna.store.files.storage import FOLDER_MODE, Storage

_FILE_MODE = 0o600


class SampleStore(NamedFiles):
    """The samples."""

    def __init__(self, storage: Storage, owner: tuple[int, int] | None = None) -> None:
        """`owner` is the user and group id for new files, if the process is root."""
        super().__init__(storage, "samples", ".wav")
        self._owner = owner

    def new(self) -> tuple[str, Path]:
        """An unguessable name and its path. Creates the path's folder."""
        name, path = super().new()
        self.folder.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
        path.parent.mkdir(mode=FOLDER_MODE, exist_ok=True)
        return name, path

    def make_private(self, name: str) -> None:
        """Makes the file readable by this user only."""
        path = self._path(name)
        path.chmod(_FILE_MODE)
        if self._owner:
            for found in (self.folder, path.parent, path):
                os.chown(found, *self._owner)

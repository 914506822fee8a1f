"""Stored samples of voices: `samples/ab/<32 hex>.wav` under the data folder, private to the service's user.

A sample is sent only to a compute node that has leased a job in its voice.
"""

import os
import re
import secrets
from collections.abc import Iterator
from pathlib import Path

_NAME = re.compile(r"[0-9a-f]{32}\.wav")
_FOLDER_MODE = 0o700
_FILE_MODE = 0o600


class SampleStore:
    """A folder of private files. Writers rename a complete file to its name."""

    def __init__(self, folder: Path, owner: tuple[int, int] | None = None) -> None:
        """`owner` is the user and group id for new files, if the process is root."""
        self._folder = folder
        self._owner = owner

    def new(self) -> tuple[str, Path]:
        """An unguessable name and its path. Creates the path's folder."""
        name = secrets.token_hex(16) + ".wav"
        path = self._path(name)
        self._folder.mkdir(mode=_FOLDER_MODE, parents=True, exist_ok=True)
        path.parent.mkdir(mode=_FOLDER_MODE, exist_ok=True)
        return name, path

    def make_private(self, name: str) -> None:
        """Makes the file readable by this user only."""
        path = self._path(name)
        path.chmod(_FILE_MODE)
        if self._owner:
            for found in (self._folder, path.parent, path):
                os.chown(found, *self._owner)

    def find(self, name: str) -> Path | None:
        """The path of this file; None if the name is invalid or there is no such file."""
        if not _NAME.fullmatch(name):
            return None
        path = self._path(name)
        return path if path.is_file() else None

    def delete(self, name: str) -> None:
        """Deletes the file if it exists."""
        self._path(name).unlink(missing_ok=True)

    def older_than(self, before: float) -> Iterator[str]:
        """The names of all files with a modification time before `before` (Unix seconds)."""
        for path in self._folder.glob("*/*.wav"):
            try:
                if _NAME.fullmatch(path.name) and path.stat().st_mtime < before:
                    yield path.name
            except FileNotFoundError:  # deleted meanwhile
                continue

    def _path(self, name: str) -> Path:
        return self._folder / name[:2] / name

"""Samples of voices at rest: `samples/ab/<32 hex>.wav` under the data folder, for the service's user alone.

Nothing serves this folder: a sample leaves it only to a compute node that holds a job in its voice.
"""

import re
import secrets
from collections.abc import Iterator
from pathlib import Path

_NAME = re.compile(r"[0-9a-f]{32}\.wav")
_FOLDER_MODE, _FILE_MODE = 0o700, 0o600


class SampleStore:
    """A folder of private files. A file is here whole or not at all: writers rename it into place."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def new(self) -> tuple[str, Path]:
        """An unguessable name and the path to write it to; its folder is there."""
        name = secrets.token_hex(16) + ".wav"
        path = self._path(name)
        self._folder.mkdir(mode=_FOLDER_MODE, parents=True, exist_ok=True)
        path.parent.mkdir(mode=_FOLDER_MODE, exist_ok=True)
        return name, path

    def seal(self, name: str) -> None:
        """Only this user may read it from now on, wherever it is moved or copied."""
        self._path(name).chmod(_FILE_MODE)

    def find(self, name: str) -> Path | None:
        """The file of this name, None for anything that isn't one."""
        if not _NAME.fullmatch(name):
            return None
        path = self._path(name)
        return path if path.is_file() else None

    def delete(self, name: str) -> None:
        """Gone, whether or not it was there."""
        self._path(name).unlink(missing_ok=True)

    def older(self, before: float) -> Iterator[str]:
        """The names of all files that were written before this moment (Unix seconds)."""
        for path in self._folder.glob("*/*.wav"):
            try:
                if _NAME.fullmatch(path.name) and path.stat().st_mtime < before:
                    yield path.name
            except FileNotFoundError:  # it was deleted just now
                continue

    def _path(self, name: str) -> Path:
        return self._folder / name[:2] / name

"""Stored files, named by 128 random bits: `ab/<32 hex><suffix>` in a folder."""

import re
import secrets
from collections.abc import Iterator
from pathlib import Path

FOLDER_MODE = 0o700


class NamedFiles:
    """A folder of finished files. Writers rename a complete file to its name. All methods except `new` block
    on the disk and must run in a thread."""

    def __init__(self, folder: Path, suffix: str) -> None:
        self._folder = folder
        self._suffix = suffix
        self._name = re.compile(rf"[0-9a-f]{{32}}{re.escape(suffix)}")

    def new(self) -> tuple[str, Path]:
        """An unguessable name and its path. The writer creates the path's folder."""
        name = secrets.token_hex(16) + self._suffix
        return name, self._path(name)

    def find(self, name: str) -> Path | None:
        """The path of this file; None if the name is invalid or there is no such file."""
        if not self._name.fullmatch(name):
            return None
        path = self._path(name)
        return path if path.is_file() else None

    def delete(self, name: str) -> None:
        """Deletes the file if it exists."""
        self._path(name).unlink(missing_ok=True)

    def modified_between(self, since: float, before: float) -> Iterator[str]:
        """The names of all files with a modification time from `since` to `before`, exclusive (Unix
        seconds)."""
        for path in self._folder.glob(f"*/*{self._suffix}"):
            try:
                if self._name.fullmatch(path.name) and since <= path.stat().st_mtime < before:
                    yield path.name
            except FileNotFoundError:  # removed concurrently
                continue

    def _path(self, name: str) -> Path:
        return self._folder.joinpath(name[:2], name)

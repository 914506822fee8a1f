"""Stored audio files: `audio/ab/<32 hex>.mp3` under the data folder, named by 128 random bits."""

import re
import secrets
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from myna.files.disk_threads import DiskExecutor
from myna.files.fsync import remove

_NAME = re.compile(r"[0-9a-f]{32}\.mp3")
_PROBE_BYTES = 4096
_FOLDER_MODE = 0o700


class AudioStore:
    """A folder of finished files. Writers rename a complete file to its name. All methods except `new` and
    `discard` block on the disk and must run in a thread."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._disk = DiskExecutor()

    def prepare(self) -> None:
        """Creates the folder and makes it private to this user: an unguessable name is the only access
        control of a file."""
        self._folder.mkdir(mode=_FOLDER_MODE, parents=True, exist_ok=True)
        if self._folder.stat().st_mode & 0o777 != _FOLDER_MODE:
            self._folder.chmod(_FOLDER_MODE)

    def new(self) -> tuple[str, Path]:
        """An unguessable name and its path. The writer creates the path's folder."""
        name = secrets.token_hex(16) + ".mp3"
        return name, self._path(name)

    def find(self, name: str) -> Path | None:
        """The path of this file; None if the name is invalid or there is no such file."""
        if not _NAME.fullmatch(name):
            return None
        path = self._path(name)
        return path if path.is_file() else None

    def delete(self, name: str) -> None:
        """Deletes the file if it exists."""
        self._path(name).unlink(missing_ok=True)

    async def discard(self, name: str) -> None:
        """Deletes a file that no task references. Returns after a second if the disk stalls, and deletes it
        later. A failure is logged, and the collector deletes the file."""
        await self._disk.clean_up(partial(remove, self._path(name)))

    def modified_between(self, since: float, before: float) -> Iterator[str]:
        """The names of all files with a modification time from `since` to `before`, exclusive (Unix
        seconds)."""
        for path in self._folder.glob("*/*.mp3"):
            try:
                if _NAME.fullmatch(path.name) and since <= path.stat().st_mtime < before:
                    yield path.name
            except FileNotFoundError:  # removed meanwhile
                continue

    def writable(self) -> bool:
        """Whether a block of a new file can be written. A full disk still accepts an empty file."""
        probe = self._folder / f"probe-{secrets.token_hex(4)}"
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            try:
                probe.write_bytes(bytes(_PROBE_BYTES))
            finally:
                probe.unlink(missing_ok=True)
        except OSError:
            return False
        return True

    def _path(self, name: str) -> Path:
        return self._folder / name[:2] / name

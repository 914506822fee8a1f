"""Audio files at rest: `audio/ab/<32 hex>.mp3` under the data folder, named by 128 random bits."""

import re
import secrets
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from myna.disk_threads import Disk
from myna.sound.durable import remove

_NAME = re.compile(r"[0-9a-f]{32}\.mp3")
_PROBE_BYTES = 4096


class AudioStore:
    """A folder of finished files. A file is here whole or not at all: writers rename it into place. All but
    `new` and `discard` waits for the disk and belongs in a thread."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._disk = Disk()

    def new(self, suffix: str) -> tuple[str, Path]:
        """An unguessable name and the path to write it to; whoever does makes its folder."""
        name = secrets.token_hex(16) + suffix
        return name, self._path(name)

    def find(self, name: str) -> Path | None:
        """The file of this name, None for anything that isn't one."""
        if not _NAME.fullmatch(name):
            return None
        path = self._path(name)
        return path if path.is_file() else None

    def delete(self, name: str) -> None:
        """Gone, whether or not it was there."""
        self._path(name).unlink(missing_ok=True)

    async def discard(self, name: str) -> None:
        """The same for a file that no task names. What the disk takes over a second for goes later; what it
        doesn't let be removed is logged and left to the collector."""
        await self._disk.cleared(partial(remove, self._path(name)))

    def between(self, since: float, before: float) -> Iterator[str]:
        """The names of all files that were last written from one moment to another (Unix seconds)."""
        for path in self._folder.glob("*/*.mp3"):
            try:
                if _NAME.fullmatch(path.name) and since <= path.stat().st_mtime < before:
                    yield path.name
            except FileNotFoundError:  # it was removed just now
                continue

    def writable(self) -> bool:
        """Whether a block of a new file could be written now. A full disk still takes an empty file."""
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

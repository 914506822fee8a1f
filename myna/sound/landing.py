"""A file that is at its path whole and for good, or not at all."""

import contextlib
import errno
import hashlib
import os
import secrets
import threading
from pathlib import Path
from typing import BinaryIO, Final

from myna.sound.durable import remove, sync_folder

_BUFFER_BYTES: Final = 262_144


class Landing:
    """Takes bytes under a name of its own in the folder of `path`; `commit` moves them to `path`.

    `part` is that name where somebody else has to know it, such as who clears up after a process that died.
    `begin` comes first. `write` only hands bytes to the page cache and the hash, well below a millisecond for
    what a socket gives at once, so it may run on an event loop. All else waits for the disk and belongs in a
    thread. `abort` and `undo` raise nothing, all else OSError.
    """

    def __init__(self, path: Path, part: Path | None = None) -> None:
        self.part = part or path.with_name(f".{secrets.token_hex(8)}.part")
        self.size_bytes = 0
        self._path = path
        self._hash = hashlib.sha256()
        self._file: BinaryIO | None = None
        self._naming = threading.Lock()
        self._aborted = False

    def begin(self) -> None:
        """Opens the file, in a folder that is made if it isn't there."""
        self.part.parent.mkdir(parents=True, exist_ok=True)
        with self._naming:
            self._go_on()
            self._file = self.part.open("xb", buffering=_BUFFER_BYTES)

    def write(self, data: bytes) -> None:
        """Append."""
        self._open.write(data)
        self._hash.update(data)
        self.size_bytes += len(data)

    def flush(self) -> None:
        """What was written can be read at `part` now."""
        self._open.flush()

    @property
    def sha256(self) -> bytes:
        """Of what was written so far."""
        return self._hash.digest()

    def commit(self) -> tuple[int, bytes]:
        """The file is at its path, also after a loss of power; its size in bytes and its SHA-256."""
        self._open.flush()
        os.fsync(self._open.fileno())
        self._open.close()
        with self._naming:
            self._go_on()
            self.part.replace(self._path)
        sync_folder(self._path.parent)
        return self.size_bytes, self._hash.digest()

    def abort(self) -> None:
        """Leave no part behind. May be called twice, and while `begin` or `commit` still waits for the disk:
        what isn't at its path by then never gets there."""
        with self._naming:
            self._aborted = True
        if self._file:
            with contextlib.suppress(OSError):  # what it still held back has no room; it goes anyway
                self._file.close()
        remove(self.part)

    def undo(self) -> None:
        """Leave nothing behind, also where it is at its path already."""
        self.abort()
        remove(self._path)

    @property
    def _open(self) -> BinaryIO:
        if self._file is None:
            raise ValueError("nothing was begun")
        return self._file

    def _go_on(self) -> None:
        if self._aborted:
            raise FileNotFoundError(errno.ENOENT, "the file was given up", str(self.part))

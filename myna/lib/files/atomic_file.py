"""A file that appears at its path whole and durable, or not at all."""

import contextlib
import errno
import hashlib
import os
import secrets
import threading
from pathlib import Path
from typing import BinaryIO, Final

from myna.lib.files.fsync import remove, sync_folder

_BUFFER_BYTES: Final = 262_144


class AtomicFile:
    """Writes to a temporary name in the folder of `path`; `commit` renames it to `path`.

    Pass `part` as the temporary name if another process has to remove it after a crash. Call `begin` first.
    `write` only copies bytes to the page cache and the hash, well under a millisecond for one read of a
    socket, so it may run on an event loop. The other methods do disk I/O and belong in a thread. `abort` and
    `undo` raise nothing; the others raise OSError.
    """

    def __init__(self, path: Path, part: Path | None = None) -> None:
        self.part = part or path.with_name(f".{secrets.token_hex(8)}.part")
        self.size_bytes = 0
        self._path = path
        self._hash = hashlib.sha256()
        self._file: BinaryIO | None = None
        self._name_lock = threading.Lock()
        self._aborted = False

    def begin(self) -> None:
        """Opens the file; creates the folder if it is missing."""
        self.part.parent.mkdir(parents=True, exist_ok=True)
        with self._name_lock:
            self._check_not_aborted()
            self._file = self.part.open("xb", buffering=_BUFFER_BYTES)

    def write(self, data: bytes) -> None:
        """Appends."""
        self._open.write(data)
        self._hash.update(data)
        self.size_bytes += len(data)

    def flush(self) -> None:
        """Makes the data written so far readable at `part`."""
        self._open.flush()

    @property
    def sha256(self) -> bytes:
        """Of the data written so far."""
        return self._hash.digest()

    def commit(self) -> tuple[int, bytes]:
        """Moves the file to its path, durably. Returns its size in bytes and its SHA-256."""
        self._open.flush()
        os.fsync(self._open.fileno())
        self._open.close()
        with self._name_lock:
            self._check_not_aborted()
            self.part.replace(self._path)
        sync_folder(self._path.parent)
        return self.size_bytes, self._hash.digest()

    def abort(self) -> None:
        """Removes the part. Idempotent. May run while `begin` or `commit` waits for the disk: a file that is
        not at its path yet never gets there."""
        with self._name_lock:
            self._aborted = True
        if self._file:
            with contextlib.suppress(OSError):  # closing flushes the buffer, which fails on a full disk
                self._file.close()
        remove(self.part)

    def undo(self) -> None:
        """Removes the part, and the file at its path."""
        self.abort()
        remove(self._path)

    @property
    def _open(self) -> BinaryIO:
        if self._file is None:
            raise ValueError("the file is not open")
        return self._file

    def _check_not_aborted(self) -> None:
        if self._aborted:
            raise FileNotFoundError(errno.ENOENT, "the file was aborted", str(self.part))

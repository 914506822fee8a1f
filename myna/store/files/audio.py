"""Stored audio files: `audio/ab/<32 hex>.mp3` under the data folder."""

import secrets
from functools import partial
from pathlib import Path

from myna.lib.files import DiskExecutor, remove
from myna.store.files.named_files import FOLDER_MODE, NamedFiles

_PROBE_BYTES = 4096


class AudioStore(NamedFiles):
    """The audio files. All methods except `new` and `discard` block on the disk and must run in a thread."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, ".mp3")
        self._disk = DiskExecutor()

    def prepare(self) -> None:
        """Creates the folder and makes it private to this user: an unguessable name is the only access
        control of a file."""
        self._folder.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
        if self._folder.stat().st_mode & 0o777 != FOLDER_MODE:
            self._folder.chmod(FOLDER_MODE)

    async def discard(self, name: str) -> None:
        """Deletes a file that no task references. Returns after a second if the disk stalls, and deletes it
        later. A failure is logged, and the collector deletes the file."""
        await self._disk.clean_up(partial(remove, self._path(name)))

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

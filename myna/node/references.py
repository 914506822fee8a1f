"""Recordings of cloned voices: fetched once, cached until the service says to forget them."""

import asyncio
import os
from pathlib import Path
from re import compile as pattern
from typing import Final

from myna.lib.files import AtomicFile
from myna.node.server_client import ServerClient
from myna.wire.farm import JobReference

CACHED_MAX: Final = 1000
"""Above this number the least recently used copy is deleted. It can be fetched again."""
_NAME: Final = pattern(r"([0-9a-f]{64})\.wav")


class References:
    """Copies in a folder, each a wav named by its SHA-256. Deletes other files there, which a crash left."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._fetching = asyncio.Lock()
        folder.mkdir(mode=0o700, exist_ok=True)
        paths = sorted(folder.iterdir(), key=lambda path: path.stat().st_mtime)
        self._cached: dict[str, None] = {}  # in the order of their last use
        for path in paths:
            if name := _NAME.fullmatch(path.name):
                self._cached[name[1]] = None
            else:
                path.unlink()

    def cached(self) -> list[str]:
        """The SHA-256 of each copy."""
        return list(self._cached)

    async def get(self, server: ServerClient, reference: JobReference) -> Path:
        """The path of the wav, which is fetched if there is no copy. Raises ServerFailed or OSError."""
        path = self._path(reference.sha256)
        async with self._fetching:  # two jobs with the same voice fetch it once
            if reference.sha256 not in self._cached:
                wav = await server.reference(reference)
                await asyncio.to_thread(_write, path, wav)
            self._cached.pop(reference.sha256, None)
            self._cached[reference.sha256] = None
            if len(self._cached) > CACHED_MAX:
                self.forget(next(iter(self._cached)))
        os.utime(path)
        return path

    def forget(self, sha256: str) -> bool:
        """Deletes the copy. False if there is none."""
        if sha256 not in self._cached:
            return False
        del self._cached[sha256]
        self._path(sha256).unlink(missing_ok=True)
        return True

    def _path(self, sha256: str) -> Path:
        return self._folder / f"{sha256}.wav"


def _write(path: Path, wav: bytes) -> None:
    file = AtomicFile(path)
    try:
        file.begin()
        file.write(wav)
        file.commit()
    finally:
        file.abort()

"""The recordings that this node was given to speak like: fetched once, kept until the site says forget."""

import asyncio
import os
from pathlib import Path
from re import compile as pattern
from typing import Final

from myna.node.site import Site
from myna.sound.landing import Landing
from myna.wire.farm import Reference

KEPT_MAX: Final = 1000
"""More than that, and the one that was used longest ago goes: it can be fetched again."""
_NAME: Final = pattern(r"([0-9a-f]{64})\.wav")


class References:
    """Copies in a folder, each a wav under its SHA-256. What else lies there is left of a crash, and goes."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._fetching = asyncio.Lock()
        folder.mkdir(mode=0o700, exist_ok=True)
        found = sorted(folder.iterdir(), key=lambda path: path.stat().st_mtime)
        self._kept: dict[str, None] = {}  # the one used last at the end
        for path in found:
            if name := _NAME.fullmatch(path.name):
                self._kept[name[1]] = None
            else:
                path.unlink()

    def kept(self) -> list[str]:
        """The SHA-256 of each."""
        return list(self._kept)

    async def get(self, site: Site, reference: Reference) -> Path:
        """Where the wav lies, fetched if it isn't there. Raises SiteFailed or OSError."""
        path = self._path(reference.sha256)
        async with self._fetching:  # two jobs in one voice fetch it once
            if reference.sha256 not in self._kept:
                wav = await site.reference(reference)
                await asyncio.to_thread(_write, path, wav)
            self._kept.pop(reference.sha256, None)
            self._kept[reference.sha256] = None
            if len(self._kept) > KEPT_MAX:
                self.forget(next(iter(self._kept)))
        os.utime(path)
        return path

    def forget(self, sha256: str) -> bool:
        """Deletes the copy; False where there is none."""
        if sha256 not in self._kept:
            return False
        del self._kept[sha256]
        self._path(sha256).unlink(missing_ok=True)
        return True

    def _path(self, sha256: str) -> Path:
        return self._folder / f"{sha256}.wav"


def _write(path: Path, wav: bytes) -> None:
    file = Landing(path)
    try:
        file.begin()
        file.write(wav)
        file.commit()
    finally:
        file.abort()

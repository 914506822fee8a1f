"""Stored audio files: `audio/ab/<32 hex>.mp3` in the storage."""

from functools import partial

from myna.engines.audio import word_times
from myna.engines.interface import WordTime
from myna.store.files.named_files import NamedFiles
from myna.store.files.storage import Storage


class AudioStore(NamedFiles):
    """The audio files."""

    def __init__(self, storage: Storage) -> None:
        super().__init__(storage, "audio", ".mp3")

    def words(self, name: str) -> list[WordTime]:
        """The words of a sound with their times; none if they are not known or there is no such file. Blocks,
        and must run in a thread. Raises OSError, StorageUnavailable."""
        stored = self.stat(name)
        return word_times.read_parts(stored.size_bytes, partial(self.read, name)) if stored else []

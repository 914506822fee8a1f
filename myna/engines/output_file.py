"""An engine's output files: durable on disk, or removed.

The process that speaks only writes to the page cache and starts its next job. The fsync happens here, in
threads. A power loss before it may leave a damaged file. No row names that file, so it is deleted with the
other files without a row.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager, aclosing
from functools import partial
from pathlib import Path
from typing import Final

from msgspec import structs

from myna.engines.audio import word_times
from myna.engines.audio.mp3 import Mp3File
from myna.engines.interface import (
    STREAM_RATE_HZ,
    Client,
    EngineBusy,
    EngineFailed,
    EngineTimedOut,
    NothingSpoken,
    SoundParts,
    SpeechResult,
    Utterance,
    WordTime,
    bounded,
)
from myna.lib.files import DiskExecutor, make_durable, remove

_STORE_S: Final = 1.0


def store_s(left_s: float) -> float:
    """The seconds reserved for storing the file, of those left for a text that is streamed."""
    return min(_STORE_S, left_s / 10)


def part_of(path: Path) -> Path:
    """The temporary name of an output file, in its folder: another process knows what a dead one left."""
    return path.with_name(f".{path.name}.part")


class DurableFiles:
    """The output files of a pool's jobs; up to `at_once` are synced at a time.

    A job that waits for the disk counts in the pool's queue by `waiting`, so a slow disk fills the queue like
    a slow engine.
    """

    def __init__(self, waiting: Callable[[], AbstractContextManager[None]], at_once: int) -> None:
        self._waiting = waiting
        self._disk = DiskExecutor(at_once)

    async def write_sound(
        self,
        sound: Callable[[Utterance, float, Client], SoundParts],
        utterance: Utterance,
        path: Path,
        deadline_s: float,
        client: Client,
    ) -> SpeechResult:
        """Writes a sound at STREAM_RATE_HZ, as the client's `relay` returns its parts. `sound` makes it in
        the seconds that it gets: fewer with a relay, which may keep the parts before a failure.

        Raises SoundTooLong, NothingSpoken for no sound, EngineTimedOut, EngineFailed if the disk fails, and
        errors of `sound`. See `write`.
        """
        ends_at = asyncio.get_running_loop().time() + deadline_s

        async def write(part: Path) -> SpeechResult:
            left_s = ends_at - asyncio.get_running_loop().time()
            file = Mp3File(part, path, STREAM_RATE_HZ)
            if client.relay is None:
                parts = sound(utterance, left_s, client)
            else:
                parts = client.relay(sound(utterance, left_s - store_s(left_s), client))
            async with aclosing(parts):
                return await self._encode(parts, file, utterance.sound_max_s, ends_at)

        return await self.write(path, deadline_s, write)

    async def _encode(
        self, parts: SoundParts, file: Mp3File, sound_max_s: float, ends_at: float
    ) -> SpeechResult:
        """Encodes the parts of a sound as they come, from the first one on."""
        write = bounded(file.write, file.rate_hz, sound_max_s)
        work_s, size_bytes = 0.0, 0
        words: list[WordTime] = []
        try:
            async with asyncio.timeout_at(ends_at):
                async for sound in parts:
                    work_s += sound.work_s
                    if sound.pcm and not size_bytes:
                        await self._disk.run_metadata(file.open)  # before `close`, in the same thread
                    size_bytes += len(sound.pcm)
                    words += sound.words
                    await self._disk.run(partial(write, sound.pcm))
                if not size_bytes:
                    raise NothingSpoken("This voice has no sound for the text.")
                finished = await self._disk.run(partial(file.finish, word_times.tag(words)))
        except TimeoutError as error:
            raise EngineTimedOut("The text was not spoken and stored in time.") from error
        except OSError as error:
            raise EngineFailed(error.strerror or type(error).__name__) from error
        finally:
            await self._disk.clean_up(file.close)
        return structs.replace(finished, work_s=work_s)

    async def write(
        self, path: Path, deadline_s: float, speak: Callable[[Path], Awaitable[SpeechResult]]
    ) -> SpeechResult:
        """Runs `speak`, which writes `path`, and makes the file durable, within `deadline_s` seconds in all.

        `speak` takes the temporary name, `part_of(path)`. `path` must be used by this call only. On
        failure or cancellation both files are removed; a removal that takes over a second continues in the
        background, and a failed one is logged. Raises an EngineFailed.
        """
        ends_at = asyncio.get_running_loop().time() + deadline_s
        part = part_of(path)
        if self._disk.full():
            raise EngineBusy("Too many files wait for the disk.")
        clean_up = partial(self.discard, part, path)
        try:
            spoken = await speak(part)
        except EngineBusy:  # no file was made
            raise
        except BaseException:
            await clean_up()
            raise
        with self._waiting():
            try:
                await self._make_durable(path, ends_at)
            except BaseException:
                await clean_up()
                raise
        return spoken

    async def discard(self, *paths: Path) -> None:
        """Removes these files, if they exist. See `write`."""
        await self._disk.clean_up(partial(remove, *paths))

    async def _make_durable(self, path: Path, ends_at: float) -> None:
        try:
            async with asyncio.timeout_at(ends_at):
                await self._disk.run(partial(make_durable, path))
        except TimeoutError as error:
            raise EngineTimedOut("The disk took too long to store the audio.") from error
        except OSError as error:
            # The error's text names the path; its strerror does not ("No space left on device").
            raise EngineFailed(error.strerror or type(error).__name__) from error

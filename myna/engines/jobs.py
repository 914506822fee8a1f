"""Jobs of the child processes that speak, and the output of one: a file, or parts.

Both processes import this module. The child makes the output with `engines/sound.py`.
"""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final, Self

import msgspec

from myna.engines.interface import SoundPart, SoundParts, SpeechResult
from myna.engines.pool.child_main import path_bytes

TakePart = Callable[[bytes], Awaitable[None]]

_PARTS_MAX: Final = 10
"""The parts that wait for the caller; then the child waits."""
REST_MAX_S: Final = 5.0


class OutputFile(msgspec.Struct, frozen=True):
    """The file `target`, written as `part` in the same folder: absolute paths, encoded by `os.fsencode`."""

    part: bytes
    target: bytes

    @classmethod
    def at(cls, part: Path, target: Path) -> Self:
        return cls(path_bytes(part), path_bytes(target))


class SpeechJob(msgspec.Struct, frozen=True, kw_only=True):
    """A job that speaks to `file`, or to the parent. More than `sound_max_s` seconds of sound is an error."""

    sound_max_s: float
    file: OutputFile | None = None


class EspeakJob(SpeechJob, frozen=True):
    """Speak `text`. `voice` and `han_voice` are espeak-ng's names; the second reads Han characters. The speed
    is 0.25 to 4."""

    text: str
    voice: str
    han_voice: str
    speed: float


class PhonemesJob(msgspec.Struct, frozen=True):
    """Convert the text to phonemes in the language, an espeak-ng or BCP-47 code. With `han_language` the text
    is that of a voice of espeak-ng, and its Han are read in that language."""

    text: str
    language: str
    han_language: str = ""


class Phonemes(msgspec.Struct, frozen=True):
    """The text's pieces in IPA, with their punctuation, and in words."""

    pieces: list[str]
    reading: str


async def sound_of(run: Callable[[TakePart], Awaitable[SpeechResult]]) -> SoundParts:
    """The parts that a job sends, as they arrive. `run` runs the job: see `Pool.run`.

    The time that the process worked is known at the end: an empty part has it. Raises errors of `run`, after
    the parts before the error. Closing the generator discards the rest of a job that ends within REST_MAX_S,
    and cancels any other: a killed process takes seconds to replace.
    """
    arrived: asyncio.Queue[bytes | None] = asyncio.Queue()
    room = asyncio.Semaphore(_PARTS_MAX)
    closed = False

    async def take(part: bytes) -> None:
        await room.acquire()
        if closed:
            room.release()
        else:
            arrived.put_nowait(part)

    job = asyncio.ensure_future(run(take))
    job.add_done_callback(lambda _: arrived.put_nowait(None))
    try:
        while (part := await arrived.get()) is not None:
            room.release()
            yield SoundPart(part, 0.0)
        yield SoundPart(b"", (await job).work_s)
    except GeneratorExit:
        closed = True
        room.release()
        await asyncio.wait({job}, timeout=REST_MAX_S)
        raise
    finally:
        job.cancel()
        await asyncio.gather(job, return_exceptions=True)

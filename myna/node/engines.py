"""What this machine speaks with: engines side by side, and which of them has which voice."""

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, Protocol

import msgspec

from myna.engines.espeak import VOICES, Espeak
from myna.engines.sherpa import Sherpa, SherpaModel
from myna.engines.spoken import (
    EngineDown,
    EngineFailed,
    Reference,
    Spoken,
    UnfitUtterance,
    Utterance,
    Voice,
)
from myna.errors import ConfigError
from myna.node.wanted import wanted
from myna.wire.farm import VOICES_MAX, NodeVoice

QUEUE_MAX: Final = 256
JOB_MAX_S: Final = 900.0
"""How long an engine may take over one job."""

Progress = Callable[[float], None]


class NoVoice(UnfitUtterance):
    """No engine of this node has the voice now; another node's may."""


class Engine(Protocol):
    """One engine, with the voices it has and the languages in which it speaks in the voice of a reference."""

    label: str
    """As it is called in errors and by `node check`."""

    @property
    def voices(self) -> tuple[Voice, ...]: ...

    @property
    def clones(self) -> tuple[str, ...]: ...

    def up(self) -> bool: ...

    async def start(self) -> None: ...

    async def speak(
        self, utterance: Utterance, path: Path, reference: Reference | None, progress: Progress
    ) -> Spoken: ...

    async def close(self) -> None: ...


class Embedded:
    """espeak-ng, with all its voices or `only` some. Raises ConfigError for one it doesn't have."""

    clones: tuple[str, ...] = ()
    label = "espeak"

    def __init__(self, processes: int, only: Sequence[str] | None = None) -> None:
        known = {voice.voice_id: voice for voice in VOICES}
        for voice_id in only or ():
            if voice_id not in known:
                raise ConfigError(f"voices: espeak has no {voice_id!r}; it has {', '.join(known)}.")
        self.voices = VOICES if only is None else tuple(known[voice_id] for voice_id in only)
        self._espeak = Espeak(processes=processes, queue_max=QUEUE_MAX, job_deadline_s=JOB_MAX_S)
        self.up, self.start, self.close = self._espeak.up, self._espeak.start, self._espeak.close

    async def speak(
        self, utterance: Utterance, path: Path, reference: Reference | None, progress: Progress
    ) -> Spoken:
        if reference is not None:
            raise UnfitUtterance("This engine clones no voice.")
        return await self._espeak.speak(utterance, path, JOB_MAX_S)


class Neural:
    """A model of sherpa-onnx."""

    def __init__(self, model: SherpaModel) -> None:
        self.label = f"{model.family} {model.folder}"
        self._sherpa = Sherpa(model, queue_max=QUEUE_MAX, job_deadline_s=JOB_MAX_S)
        self.up, self.start, self.close = self._sherpa.up, self._sherpa.start, self._sherpa.close

    @property
    def voices(self) -> tuple[Voice, ...]:
        return self._sherpa.voices

    @property
    def clones(self) -> tuple[str, ...]:
        return self._sherpa.clones

    async def speak(
        self, utterance: Utterance, path: Path, reference: Reference | None, progress: Progress
    ) -> Spoken:
        return await self._sherpa.speak(utterance, path, JOB_MAX_S, reference=reference, progress=progress)


class Engines:
    """All engines of the node. Where two have a voice, the one that stands first in node.toml speaks it."""

    def __init__(self, engines: Sequence[Engine]) -> None:
        self._engines = engines

    async def start(self) -> None:
        """All are ready, one after another. Raises EngineFailed, naming the engine; then none runs."""
        try:
            for engine in self._engines:
                await started(engine)
            if said := too_many(self._engines):
                raise EngineDown(said)
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """Ends all. May be called twice."""
        await asyncio.gather(*(engine.close() for engine in self._engines))

    def offer(self) -> tuple[list[NodeVoice], list[str]]:
        """The voices and the languages for clones, their codes alone, of those engines that can speak now."""
        voices: dict[str, NodeVoice] = {}
        clones: dict[str, None] = {}
        for engine in self._engines:
            if engine.up():
                for voice in engine.voices:
                    voices.setdefault(voice.voice_id, _offered(voice))
                clones |= dict.fromkeys(map(_code, engine.clones))
        return list(voices.values()), list(clones)

    async def speak(
        self, utterance: Utterance, path: Path, reference: Reference | None, progress: Progress
    ) -> Spoken:
        """The utterance as an mp3 at `path`, in the reference's voice if there is one.

        Raises an error of `spoken.py`. However it ends but well, nothing is left at `path`.
        """
        for engine in self._engines:
            if engine.up() and _can(engine, utterance, reference):
                return await engine.speak(utterance, path, reference, progress)
        raise NoVoice("No engine of this node has the voice now.")


async def started(engine: Engine) -> None:
    """The engine is ready, and a site can be told of its voices. Raises EngineFailed, naming the engine."""
    try:
        await engine.start()
        for voice in engine.voices:
            _offered(voice)
    except msgspec.ValidationError as error:
        what, _, where = str(error).partition(" - at `$.")
        key = where.rstrip("`")
        words = wanted(key, what)
        said = f"{key} must be {words}" if words else str(error)
        raise EngineDown(f"{engine.label}: a voice can't be offered: {said}.") from None
    except EngineFailed as failure:
        raise type(failure)(f"{engine.label}: {failure}") from failure


def too_many(engines: Sequence[Engine]) -> str:
    """What is to be said where these have more voices than a site takes of a node; else empty. A model whose
    speakers have no names in node.toml counts only once it runs."""
    count = len({voice.voice_id for engine in engines for voice in engine.voices})
    if count <= VOICES_MAX:
        return ""
    return f"{count} voices in all; a node may have {VOICES_MAX}: name fewer of them, or take an engine away."


def _offered(voice: Voice) -> NodeVoice:
    return msgspec.convert(voice, NodeVoice, from_attributes=True)


def _can(engine: Engine, utterance: Utterance, reference: Reference | None) -> bool:
    if reference is not None:
        return _code(reference.language) in map(_code, engine.clones)
    return any(voice.voice_id == utterance.voice_id for voice in engine.voices)


def _code(language: str) -> str:
    """Without the region: who clones zh does so for zh-CN."""
    return language.partition("-")[0].lower()

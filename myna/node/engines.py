"""The speech engines of this machine, which of them has which voice, and what the server accepts as one."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec

from myna.engines.interface import (
    Client,
    Engine,
    EngineFailed,
    EngineUnavailable,
    EngineVoice,
    SpeechResult,
    UnsupportedUtterance,
    Utterance,
)
from myna.lib.sandbox import AllowedPaths
from myna.wire import validation_errors
from myna.wire.farm import CLONE_PREFIX, VOICES_MAX, NodeVoice
from myna.wire.validation_errors import FieldError

_VOICE_ID: Final = (
    "letters, digits, '.', '_' and '-', at most 100 of them, the first a letter or a digit; and no id begins"
    f" with {CLONE_PREFIX!r}, which is for cloned voices"
)
_PATTERNS: Final[Mapping[str, str]] = {
    "id": _VOICE_ID,
    "voice_id": _VOICE_ID,
    "voices": _VOICE_ID,
    "language": "a language's code, such as zh-CN, yue or en",
}
JOB_MAX_S: Final = 900.0
"""Deadline of one job in an engine."""


def pattern_requirement(error: FieldError) -> str:
    """What a value must be that does not match the pattern of its field; empty for other errors."""
    key = error.path.rpartition(".")[2].partition("[")[0]
    return _PATTERNS.get(key, "") if error.pattern else ""


class VoiceUnavailable(UnsupportedUtterance):
    """No engine of this node has the voice now. Another node may have it."""


class Engines:
    """All engines of the node. If two have the same voice, the first in node.toml speaks it."""

    def __init__(self, engines: Sequence[Engine]) -> None:
        self._engines = engines

    async def start(self, files: AllowedPaths) -> None:
        """Starts the engines one after another. Their processes may open `files` and the engines' own files
        only. Raises EngineFailed with the engine's label; then no engine runs."""
        try:
            for engine in self._engines:
                await start(engine, files)
            if excess := too_many_voices(self._engines):
                raise EngineUnavailable(excess)
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """Stops all engines. Idempotent."""
        await asyncio.gather(*(engine.close() for engine in self._engines))

    def offer(self) -> tuple[list[NodeVoice], list[str]]:
        """The voices of the engines that can speak now, and their languages for clones without the region."""
        voices: dict[str, NodeVoice] = {}
        clones: dict[str, None] = {}
        for engine in self._engines:
            if engine.up():
                for voice in engine.voices:
                    voices.setdefault(voice.voice_id, _offered(voice))
                clones |= dict.fromkeys(map(_without_region, engine.clones))
        return list(voices.values()), list(clones)

    async def speak(
        self, utterance: Utterance, path: Path, progress: Callable[[float], None]
    ) -> SpeechResult:
        """Writes the utterance as an mp3 to `path`. Raises EngineFailed; then there is no file at `path`."""
        for engine in self._engines:
            if engine.up() and _can_speak(engine, utterance):
                return await engine.speak(utterance, path, JOB_MAX_S, Client(progress=progress))
        raise VoiceUnavailable("No engine of this node has the voice now.")


async def start(engine: Engine, files: AllowedPaths) -> None:
    """Starts the engine and validates its voices. Raises EngineFailed with the engine's label."""
    try:
        await engine.start(files)
        for voice in engine.voices:
            _offered(voice)
    except msgspec.ValidationError as error:
        parsed = validation_errors.field_error(error)
        requirement = pattern_requirement(parsed)
        reason = f"{parsed.path} must be {requirement}" if requirement else str(error)
        raise EngineUnavailable(f"{engine.label}: a voice can't be offered: {reason}.") from None
    except EngineFailed as failure:
        raise type(failure)(f"{engine.label}: {failure}") from failure


def too_many_voices(engines: Sequence[Engine]) -> str:
    """The error if these engines have more voices than the server accepts from a node; else empty. The voices
    of a model that node.toml does not name are counted only once it runs."""
    count = len({voice.voice_id for engine in engines for voice in engine.voices})
    if count <= VOICES_MAX:
        return ""
    return f"{count} voices in all; a node may have {VOICES_MAX}: name fewer of them, or remove an engine."


def _offered(voice: EngineVoice) -> NodeVoice:
    return msgspec.convert(voice, NodeVoice, from_attributes=True)


def _can_speak(engine: Engine, utterance: Utterance) -> bool:
    if utterance.reference is not None:
        return _without_region(utterance.reference.language) in map(_without_region, engine.clones)
    return any(voice.voice_id == utterance.voice_id for voice in engine.voices)


def _without_region(language: str) -> str:
    """The language without its region: an engine that clones zh also clones zh-CN."""
    return language.partition("-")[0].lower()

"""The speech engines of this machine: node.toml has them. Without the file: espeak-ng on all cores.

slots = 2                  # jobs at a time; default: the number of cores
shutdown_grace_s = 20      # how long jobs may run after SIGTERM

[[engine]]
kind = "espeak"
voices = ["zh-female-1"]   # default: all

[[engine]]
kind = "sherpa"            # the keys of each kind are in docs/nodes.md
folder = "/models/vits-zh"
"""

import asyncio
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Final, get_args, get_type_hints

import msgspec
from msgspec import Meta, Struct, ValidationError

from myna.engines.espeak.engine import EspeakConfig
from myna.engines.interface import (
    Client,
    Engine,
    EngineFailed,
    EngineLimits,
    EngineUnavailable,
    EngineVoice,
    SpeechResult,
    UnsupportedUtterance,
    Utterance,
)
from myna.engines.registry import KINDS, EngineConfig
from myna.errors import ConfigError
from myna.lib.sandbox import AllowedPaths
from myna.lib.setting_kinds import read_toml
from myna.settings import usable_cores
from myna.wire import validation_errors
from myna.wire.farm import CLONE_PREFIX, SLOTS_MAX, VOICES_MAX, NodeVoice
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
CONFIG_FILE: Final = "node.toml"
ENGINES_MAX: Final = 32
QUEUE_MAX: Final = 256
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
        self.engines = engines

    async def start(self, files: AllowedPaths) -> None:
        """Starts the engines one after another. Their processes may open `files` and the engines' own files
        only. Raises EngineFailed with the engine's label; then no engine runs."""
        try:
            for engine in self.engines:
                await start(engine, files)
            if excess := too_many_voices(self.engines):
                raise EngineUnavailable(excess)
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """Stops all engines. Idempotent."""
        await asyncio.gather(*(engine.close() for engine in self.engines))

    def offer(self) -> tuple[list[NodeVoice], list[str]]:
        """The voices of the engines that can speak now, and their languages for clones without the region."""
        voices: dict[str, NodeVoice] = {}
        clones: dict[str, None] = {}
        for engine in self.engines:
            if engine.up():
                for voice in engine.voices:
                    voices.setdefault(voice.voice_id, _offered(voice))
                clones |= dict.fromkeys(map(_without_region, engine.clones))
        return list(voices.values()), list(clones)

    async def speak(
        self, utterance: Utterance, path: Path, progress: Callable[[float], None]
    ) -> SpeechResult:
        """Writes the utterance as an mp3 to `path`. Raises EngineFailed; then there is no file at `path`."""
        for engine in self.engines:
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


class NodeFile(Struct, frozen=True, forbid_unknown_fields=True):
    """The schema of node.toml."""

    slots: Annotated[int, Meta(ge=1, le=SLOTS_MAX)] = min(usable_cores(), SLOTS_MAX)
    shutdown_grace_s: Annotated[float, Meta(ge=0, le=3600)] = 20.0
    engine: Annotated[list[EngineConfig], Meta(min_length=1, max_length=ENGINES_MAX)] = msgspec.field(
        default_factory=lambda: [EspeakConfig()]
    )


class NodeConfig(Struct, frozen=True):
    """The settings of the node, and its engines, not started."""

    slots: int
    shutdown_grace_s: float
    engines: Sequence[Engine]


def load_config(paths: Sequence[Path]) -> NodeConfig:
    """The configuration in the first of these files that exists; without one, the defaults.

    Raises ConfigError: one line with the file, the key and what is right.
    """
    path = next((path for path in paths if path.exists()), None)
    document = read_toml(path) if path else None
    if path is None or document is None:
        return _config(NodeFile(), Path())
    try:
        return _config(_file(document), path.parent)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from None


def _file(document: dict[str, Any]) -> NodeFile:
    try:
        return msgspec.convert(document, NodeFile)
    except ValidationError as error:
        raise ConfigError(_explain(document, error)) from None


def _explain(document: Mapping[str, Any], error: ValidationError) -> str:
    """The error as a sentence: the table, the key and what is right."""
    parsed = validation_errors.field_error(error)
    if parsed.missing or parsed.unknown:  # the path is that of the table
        table, key = parsed.path, ""
    else:
        table, _, key = parsed.path.rpartition(".")
    prefix = f"{table}." if table else ""
    if "kind" in (key, parsed.missing):
        return f"{prefix}kind: must be {' or '.join(KINDS)}."
    fields, shape = _table(document, table)
    if parsed.unknown:
        return f"{prefix}{parsed.unknown}: is not a key here; there are {', '.join(_keys(shape))}."
    if requirement := pattern_requirement(parsed):
        return f"{parsed.path}: must be {requirement}."
    return prefix + ": ".join(validation_errors.explain(parsed._replace(path=key), fields, shape))


def _table(document: Mapping[str, Any], path: str) -> tuple[dict[str, Any], type[Struct]]:
    """The table at a path such as engine[0].voice[1], and its schema."""
    table: Any = document
    shape: type[Struct] = NodeFile
    for name, number in re.findall(r"(\w+)\[(\d+)\]", path):
        table = table[name][int(number)]
        (item,) = get_args(get_type_hints(shape)[name])
        shape = KINDS[table["kind"]] if item is EngineConfig else item
    return table, shape


def _keys(shape: type[Struct]) -> list[str]:
    tag = shape.__struct_config__.tag_field
    return [*([tag] if tag else ()), *(field.encode_name for field in msgspec.structs.fields(shape))]


def _config(file: NodeFile, base: Path) -> NodeConfig:
    engines: list[Engine] = []
    limits = EngineLimits(processes=file.slots, queue_max=QUEUE_MAX, job_deadline_s=JOB_MAX_S)
    for number, config in enumerate(file.engine):
        try:
            engines.append(config.build(limits, base))
        except ConfigError as error:
            raise ConfigError(f"engine[{number}]: {error}") from None
    if excess := too_many_voices(engines):
        raise ConfigError(f"engine: {excess}")
    return NodeConfig(file.slots, file.shutdown_grace_s, engines)

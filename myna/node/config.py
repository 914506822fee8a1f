"""Reads node.toml, the engines of this machine. Without the file: espeak-ng on all cores.

slots = 2                  # jobs at a time; default: the number of cores
shutdown_grace_s = 20      # how long jobs may run after SIGTERM

[[engine]]
kind = "espeak"
voices = ["zh-female-1"]   # default: all

[[engine]]
kind = "sherpa"            # the keys of each kind are in docs/nodes.md
folder = "/models/vits-zh"
"""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Final, get_args, get_type_hints

import msgspec
from msgspec import Meta, Struct, ValidationError

from myna.engines.espeak.engine import EspeakConfig
from myna.engines.interface import Engine, EngineLimits
from myna.engines.registry import KINDS, EngineConfig
from myna.errors import ConfigError
from myna.lib.setting_kinds import read_toml
from myna.node.engines import JOB_MAX_S, pattern_requirement, too_many_voices
from myna.settings import usable_cores
from myna.wire import validation_errors
from myna.wire.farm import SLOTS_MAX

FILE: Final = "node.toml"
ENGINES_MAX: Final = 32
QUEUE_MAX: Final = 256


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


def load(paths: Sequence[Path]) -> NodeConfig:
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

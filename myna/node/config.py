"""node.toml: what this machine speaks with. Without the file it is espeak-ng, on all cores.

slots = 2                  # jobs at a time; without it as many as there are cores
shutdown_grace_s = 20      # how long jobs may go on after SIGTERM

[[engine]]
kind = "espeak"
voices = ["zh-female-1"]   # without it all

[[engine]]
kind = "sherpa"            # the rest of the table is in engines/sherpa_models.py
folder = "/models/vits-zh"
"""

import os
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Final

import msgspec
from msgspec import Meta, Struct

from myna.engines.sherpa_models import SherpaEntry, described
from myna.errors import ConfigError
from myna.node.engines import Embedded, Engine, Neural
from myna.wire.farm import SLOTS_MAX, VoiceId

FILE: Final = "node.toml"
ENGINES_MAX: Final = 32


class EspeakEntry(Struct, frozen=True, forbid_unknown_fields=True, tag_field="kind", tag="espeak"):
    """The embedded voices, or only some of them."""

    voices: Annotated[list[VoiceId], Meta(min_length=1)] | None = None


class File(Struct, frozen=True, forbid_unknown_fields=True):
    """What may stand in node.toml."""

    slots: Annotated[int, Meta(ge=1, le=SLOTS_MAX)] = min(os.cpu_count() or 1, SLOTS_MAX)
    shutdown_grace_s: Annotated[float, Meta(ge=0, le=3600)] = 20.0
    engine: Annotated[list[EspeakEntry | SherpaEntry], Meta(min_length=1, max_length=ENGINES_MAX)] = (
        msgspec.field(default_factory=lambda: [EspeakEntry()])
    )


class NodeConfig(Struct, frozen=True):
    """How the node works and with which engines, none of them started."""

    slots: int
    shutdown_grace_s: float
    engines: Sequence[Engine]


def load(places: Sequence[Path]) -> NodeConfig:
    """By the first of these files that exists; without one, by the defaults.

    Raises ConfigError: one line that names the file and the field.
    """
    path = next((place for place in places if place.exists()), None)
    if path is None:
        return _config(File(), Path())
    try:
        found = msgspec.convert(tomllib.loads(path.read_text(encoding="utf-8")), File)
        return _config(found, path.parent)
    except msgspec.ValidationError as error:
        said, _, where = str(error).partition(" - at `$.")
        raise ConfigError(f"{path}: {where.rstrip('`') + ': ' if where else ''}{said}.") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, OSError) as error:
        raise ConfigError(f"{path}: can't be read: {error}.") from None
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from None


def _config(file: File, base: Path) -> NodeConfig:
    engines: list[Engine] = []
    for number, entry in enumerate(file.engine):
        try:
            if isinstance(entry, SherpaEntry):
                engines.append(Neural(described(entry, base=base)))
            else:
                engines.append(Embedded(file.slots, entry.voices))
        except ConfigError as error:
            raise ConfigError(f"engine[{number}]: {error}") from None
    return NodeConfig(file.slots, file.shutdown_grace_s, engines)

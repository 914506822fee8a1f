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

import re
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta, Struct, ValidationError

from myna.engines.sherpa_models import SherpaEntry, VoiceEntry, described
from myna.errors import ConfigError
from myna.node.engines import Embedded, Engine, Neural, too_many
from myna.node.wanted import wanted
from myna.settings import usable_cores
from myna.wire import complaint
from myna.wire.farm import SLOTS_MAX, VoiceId

FILE: Final = "node.toml"
ENGINES_MAX: Final = 32


class EspeakEntry(Struct, frozen=True, forbid_unknown_fields=True, tag_field="kind", tag="espeak"):
    """The embedded voices, or only some of them."""

    voices: Annotated[list[VoiceId], Meta(min_length=1)] | None = None


_KINDS: Final[Mapping[str, type[Struct]]] = {"espeak": EspeakEntry, "sherpa": SherpaEntry}
_UNKNOWN: Final = re.compile(r"Object contains unknown field `(.*)`", re.DOTALL)


class File(Struct, frozen=True, forbid_unknown_fields=True):
    """What may stand in node.toml."""

    slots: Annotated[int, Meta(ge=1, le=SLOTS_MAX)] = min(usable_cores(), SLOTS_MAX)
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

    Raises ConfigError: one line that names the file and the key, and says what would be right.
    """
    path = next((place for place in places if place.exists()), None)
    if path is None:
        return _config(File(), Path())
    try:
        return _config(_file(tomllib.loads(path.read_text(encoding="utf-8-sig"))), path.parent)
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, OSError) as error:
        raise ConfigError(f"{path}: can't be read: {error}.") from None
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from None


def _file(found: dict[str, Any]) -> File:
    try:
        file = msgspec.convert(found, File)
    except ValidationError as error:
        raise ConfigError(_said(found, error)) from None
    for number, entry in enumerate(file.engine):
        _check(entry, f"engine[{number}]")
    return file


def _check(entry: EspeakEntry | SherpaEntry, at: str) -> None:
    """What a type can't say. Raises ConfigError."""
    if isinstance(entry, EspeakEntry):
        _check_each_once(f"{at}.voices", entry.voices or ())
        return
    if not entry.folder:
        raise ConfigError(f"{at}.folder: is empty; name the model's folder.")
    _check_each_once(f"{at}.voice", [voice.id for voice in entry.voice])
    for number, voice in enumerate(entry.voice):
        if not voice.name.isprintable():
            raise ConfigError(f"{at}.voice[{number}].name: must be printable characters, and no others.")


def _check_each_once(at: str, ids: Sequence[str]) -> None:
    for number, voice_id in enumerate(ids):
        if voice_id in ids[:number]:
            raise ConfigError(f"{at}[{number}]: the id {voice_id} stands there twice; leave one.")


def _said(found: Mapping[str, Any], error: ValidationError) -> str:
    """What is wrong with what was found: the key with the tables it stands in, and what would be right."""
    what, _, where = str(error).partition(" - at `$.")
    table, _, key = where.rstrip("`").rpartition(".")
    if what.startswith("Object "):  # a key that isn't there, or isn't known: the place is the table
        table, key = where.rstrip("`"), ""
    above = f"{table}." if table else ""
    if key == "kind" or what.endswith(" `kind`"):
        return f"{above}kind: must be {' or '.join(_KINDS)}."
    fields, shape = _table(found, table)
    if unknown := _UNKNOWN.fullmatch(what):
        return f"{above}{complaint.cut(unknown[1])}: is no key here; there are {', '.join(_keys(shape))}."
    if words := wanted(key, what):
        return f"{above}{key}: must be {words}."
    at = f" - at `$.{key}`" if key else ""
    return above + complaint.of_fields(fields, shape, ValidationError(what + at))


def _table(found: Mapping[str, Any], path: str) -> tuple[dict[str, Any], type[Struct]]:
    """What stands in the table, such as engine[0].voice[1], and what may."""
    at: Any = found
    for name, number in re.findall(r"(\w+)\[(\d+)\]", path):
        at = at[name][int(number)]
    if ".voice[" in path:
        return at, VoiceEntry
    return at, _KINDS[at["kind"]] if path else File


def _keys(shape: type[Struct]) -> list[str]:
    tag = shape.__struct_config__.tag_field
    return [*([tag] if tag else ()), *(field.encode_name for field in msgspec.structs.fields(shape))]


def _config(file: File, base: Path) -> NodeConfig:
    engines: list[Engine] = []
    for number, entry in enumerate(file.engine):
        try:
            engines.append(_engine(entry, file.slots, base))
        except ConfigError as error:
            raise ConfigError(f"engine[{number}]: {error}") from None
    if said := too_many(engines):
        raise ConfigError(f"engine: {said}")
    return NodeConfig(file.slots, file.shutdown_grace_s, engines)


def _engine(entry: EspeakEntry | SherpaEntry, slots: int, base: Path) -> Engine:
    if isinstance(entry, EspeakEntry):
        return Embedded(slots, entry.voices)
    folder = base / entry.folder
    if not folder.is_dir():
        raise ConfigError(f"folder: there is no {folder}; unpack the model there, or name where it is.")
    return Neural(described(entry, base=base))

"""The kinds of engines, for both sides: `kind` in node.toml, and MYNA_SPEECH of the site.

The configuration of a kind is a struct, tagged with its name. Its `build(limits, folder)` returns the Engine,
not started; paths are relative to `folder`. It raises ConfigError, which names the key.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Final, get_args

import msgspec

from myna.engines.espeak.engine import EspeakConfig
from myna.engines.interface import Engine, EngineLimits
from myna.engines.kokoro.engine import KokoroConfig
from myna.engines.models.published import folder_of
from myna.engines.openai.engine import OpenAIConfig
from myna.engines.sherpa.engine import SherpaConfig
from myna.errors import ConfigError
from myna.lib.net import is_base_url

AUTO: Final = "auto"
"""Kokoro if its model is in the data folder, and espeak."""
DEFAULT_SPEECH: Final = "default-speech"
"""A model in a folder, or the URL of a server."""
ESPEAK: Final = "espeak"
KOKORO: Final = "default-kokoro"
"""Not `kokoro`, which operators call a channel to a server of that name."""

EngineConfig = EspeakConfig | KokoroConfig | SherpaConfig | OpenAIConfig

KINDS: Final[Mapping[str, type[msgspec.Struct]]] = {
    str(config.__struct_config__.tag): config for config in get_args(EngineConfig)
}


def site_configs(speech: str, data_folder: Path) -> dict[str, EngineConfig]:
    """The engines of MYNA_SPEECH on the site by the name of their channel, in order. Empty for `none` and
    for the URL of a server, which needs no processes. Raises ConfigError."""
    if speech == "none" or is_base_url(speech):
        return {}
    neural, fast = KokoroConfig(str(folder_of(data_folder, "kokoro"))), EspeakConfig()
    if speech == AUTO:
        return {**({KOKORO: neural} if neural.is_installed else {}), ESPEAK: fast}
    if speech == "kokoro":
        return {KOKORO: neural}
    if speech == "espeak":
        return {ESPEAK: fast}
    kind, _, folder = speech.partition(":")
    try:
        return {DEFAULT_SPEECH: msgspec.convert({"kind": kind, "folder": folder}, EngineConfig)}
    except msgspec.ValidationError:
        kinds = [name for name, config in KINDS.items() if "folder" in config.__struct_fields__]
        known = ", ".join(f"{name}:/FOLDER" for name in kinds)
        message = f"{kind!r} is not an engine that speaks from a folder; there are {known}"
        raise ConfigError(f"MYNA_SPEECH: {message}.") from None


def site_engines(speech: str, data_folder: Path, limits: EngineLimits) -> dict[str, Engine]:
    """The engines of `site_configs`, not started. Raises ConfigError."""
    configs = site_configs(speech, data_folder)
    try:
        engines: dict[str, Engine] = {name: config.build(limits, Path()) for name, config in configs.items()}
    except ConfigError as error:
        raise ConfigError(f"MYNA_SPEECH: {error}") from None
    if any(engine.clones and not engine.voices for engine in engines.values()):
        raise ConfigError("MYNA_SPEECH: this model only clones voices, which needs a compute node.")
    return engines

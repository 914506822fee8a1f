"""The kinds of engines, for both sides: `kind` in node.toml, and MYNA_SPEECH of the site.

The configuration of a kind is a struct, tagged with its name. Its `build(limits, folder)` returns the Engine,
not started; paths are relative to `folder`. It raises ConfigError, which names the key.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Final, get_args

import msgspec

from myna.engines.espeak.config import EspeakConfig
from myna.engines.interface import Engine, EngineLimits
from myna.engines.openai.config import OpenAIConfig
from myna.engines.sherpa.config import SherpaConfig
from myna.errors import ConfigError
from myna.settings import is_base_url

EngineConfig = EspeakConfig | SherpaConfig | OpenAIConfig

KINDS: Final[Mapping[str, type[msgspec.Struct]]] = {
    str(config.__struct_config__.tag): config for config in get_args(EngineConfig)
}


def engine_of(speech: str, limits: EngineLimits) -> Engine | None:
    """The engine of MYNA_SPEECH, which is KIND or KIND:FOLDER. None for `none` and for the URL of a server,
    which needs no processes. Raises ConfigError."""
    if speech == "none" or is_base_url(speech):
        return None
    kind, _, folder = speech.partition(":")
    try:
        table = {"kind": kind, "folder": folder} if folder else {"kind": kind}
        config: EngineConfig = msgspec.convert(table, EngineConfig)
        engine = config.build(limits, Path())
        if engine.clones and not engine.voices:
            raise ConfigError("this model only clones voices, which needs a compute node.")
        return engine
    except msgspec.ValidationError:
        raise ConfigError(f"MYNA_SPEECH: {kind!r} is no kind of engine that speaks from a folder.") from None
    except ConfigError as error:
        raise ConfigError(f"MYNA_SPEECH: {error}") from None

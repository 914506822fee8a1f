"""The configuration of espeak-ng."""

from pathlib import Path

from msgspec import Struct, structs

from myna.engines.config import VoiceIds, check_unique
from myna.engines.espeak.engine import VOICES, Espeak
from myna.engines.interface import EngineLimits
from myna.errors import ConfigError


class EspeakConfig(Struct, frozen=True, forbid_unknown_fields=True, tag_field="kind", tag="espeak"):
    """espeak-ng with all of its voices, or with these."""

    voices: VoiceIds | None = None

    def build(self, limits: EngineLimits, folder: Path) -> Espeak:
        check_unique("voices", self.voices or ())
        known = [voice.voice_id for voice in VOICES]
        for voice_id in self.voices or ():
            if voice_id not in known:
                raise ConfigError(f"voices: espeak has no {voice_id!r}; it has {', '.join(known)}.")
        return Espeak(**structs.asdict(limits), only=self.voices)

"""What the configurations of engines have in common: voices that are chosen or named by the operator."""

from collections.abc import Sequence
from typing import Annotated, Literal

from msgspec import Meta, Struct

from myna.engines.interface import EngineVoice
from myna.errors import ConfigError
from myna.wire.farm import Label, Language, VoiceId

VoiceIds = Annotated[list[VoiceId], Meta(min_length=1)]


class VoiceConfig(Struct, frozen=True, forbid_unknown_fields=True):
    """A name for a speaker of a model."""

    id: VoiceId
    name: Label
    language: Language
    gender: Literal["female", "male", "neutral"] = "neutral"
    speaker: Annotated[int, Meta(ge=0)] = 0

    @property
    def described(self) -> EngineVoice:
        return EngineVoice(voice_id=self.id, name=self.name, gender=self.gender, language=self.language)


def check_voices(voices: Sequence[VoiceConfig]) -> None:
    """Raises ConfigError for a duplicate id or a name that can't be printed."""
    check_unique("voice", [voice.id for voice in voices])
    for number, voice in enumerate(voices):
        if not voice.name.isprintable():
            raise ConfigError(f"voice[{number}].name: must be printable characters, and no others.")


def check_unique(key: str, ids: Sequence[str]) -> None:
    """Raises ConfigError for a duplicate id in the list of this key."""
    for number, voice_id in enumerate(ids):
        if voice_id in ids[:number]:
            raise ConfigError(f"{key}[{number}]: the id {voice_id} is a duplicate; remove one.")

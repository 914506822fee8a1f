"""The configuration of a Kokoro model, and which of its voices speak how."""

from pathlib import Path
from typing import Annotated, Final

from msgspec import Meta, Struct

from myna.engines.config import VoiceIds, check_unique
from myna.engines.interface import EngineLimits, EngineVoice, StreamingEngine
from myna.engines.kokoro.engine import Kokoro, KokoroVoice
from myna.engines.kokoro.job import MODEL_FILE, VOICES_FOLDER, KokoroModel, Provider, StyleShare
from myna.engines.kokoro.voices import VOICES
from myna.engines.pool.child_main import path_bytes
from myna.errors import ConfigError

_MIXED_WITH: Final = {"female": "af_heart", "male": "am_michael"}
_MIXED_SOUND: Final = 0.6
_MIXED_PROSODY: Final = 0.1
"""The shares of the English voice where a Mandarin voice speaks English words: see decision 0015."""
PROCESSES_MAX: Final = 4
"""Each takes some 400 MB."""


class KokoroConfig(Struct, frozen=True, forbid_unknown_fields=True, tag_field="kind", tag="kokoro"):
    """A Kokoro model in `folder`, with all of its voices or with these, each in `threads` threads."""

    folder: str
    voices: VoiceIds | None = None
    threads: Annotated[int, Meta(ge=1, le=64)] = 2
    provider: Provider = "cpu"

    @property
    def is_installed(self) -> bool:
        """Whether the folder has a model."""
        return (Path(self.folder) / MODEL_FILE).is_file()

    def build(self, limits: EngineLimits, folder: Path) -> StreamingEngine:
        check_unique("voices", self.voices or ())
        model = folder / self.folder
        if not self.folder or not (model / MODEL_FILE).is_file():
            raise ConfigError(
                f"folder: there is no {MODEL_FILE} in {model}; get the model: myna models get kokoro --to"
                f" {model}"
            )
        return Kokoro(
            KokoroModel(folder=path_bytes(model), threads=self.threads, provider=self.provider),
            [_spoken(voice, model) for voice in self._chosen(model)],
            processes=min(limits.processes, PROCESSES_MAX),
            queue_max=limits.queue_max,
            job_deadline_s=limits.job_deadline_s,
            account_max=limits.account_max,
        )

    def _chosen(self, model: Path) -> list[EngineVoice]:
        """The voices of `voices`, or all whose file is there."""
        there = {voice.voice_id: voice for voice in VOICES if _file(model, voice.voice_id).is_file()}
        for voice_id in self.voices or ():
            if voice_id not in there:
                raise ConfigError(f"voices: there is no {voice_id!r}; there are {', '.join(there)}.")
        if not there:
            raise ConfigError(f"folder: {model} has no voices; get the model again: myna models get kokoro.")
        return [there[voice_id] for voice_id in self.voices or there]


def _file(model: Path, voice_id: str) -> Path:
    return model / VOICES_FOLDER / f"{voice_id}.bin"


def _spoken(voice: EngineVoice, model: Path) -> KokoroVoice:
    """Both languages in one sentence are understood best in a style between a voice of each."""
    own = (StyleShare(voice.voice_id, sound=1.0, prosody=1.0),)
    mixes = voice.language.startswith(("zh", "en"))
    if not mixes or not _file(model, _MIXED_WITH[voice.gender]).is_file():
        return KokoroVoice(voice=voice, style=own, mixed=own)
    return KokoroVoice(
        voice=voice,
        style=own,
        mixed=(
            StyleShare(voice.voice_id, sound=1.0 - _MIXED_SOUND, prosody=1.0 - _MIXED_PROSODY),
            StyleShare(_MIXED_WITH[voice.gender], sound=_MIXED_SOUND, prosody=_MIXED_PROSODY),
        ),
    )

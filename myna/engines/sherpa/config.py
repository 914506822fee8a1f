"""The configuration of a model of sherpa-onnx."""

from pathlib import Path
from typing import Annotated, Final

from msgspec import Meta, Struct, structs

from myna.engines.config import VoiceConfig, check_voices
from myna.engines.interface import EngineLimits
from myna.engines.sherpa.engine import Sherpa
from myna.engines.sherpa.job import CLONERS, Provider, SherpaModel, SherpaVoice
from myna.engines.sherpa.models import inspect
from myna.errors import ConfigError

THREADS_MAX: Final = 64


class SherpaConfig(Struct, frozen=True, forbid_unknown_fields=True, tag_field="kind", tag="sherpa"):
    """A model. Without voices each speaker gets one, named after the folder."""

    folder: str
    threads: Annotated[int, Meta(ge=1, le=THREADS_MAX)] = 2
    provider: Provider = "cpu"
    voice: list[VoiceConfig] = []

    def build(self, limits: EngineLimits, folder: Path) -> Sherpa:
        check_voices(self.voice)
        if not self.folder:
            raise ConfigError("folder: is empty; name the model's folder.")
        if not (folder / self.folder).is_dir():
            raise ConfigError(
                f"folder: there is no {folder / self.folder}; unpack the model there, or name where it is."
            )
        return Sherpa(
            self.model(folder),
            queue_max=limits.queue_max,
            job_deadline_s=limits.job_deadline_s,
            account_max=limits.account_max,
        )

    def model(self, folder: Path) -> SherpaModel:
        """The model. Raises ConfigError, which names what is missing."""
        model = inspect(folder / self.folder)
        if self.voice and model.family in CLONERS:
            raise ConfigError(f"{self.folder} has no built-in voices; it clones.")
        voices = tuple(SherpaVoice(voice.described, voice.speaker) for voice in self.voice)
        return structs.replace(model, threads=self.threads, provider=self.provider, voices=voices)

"""The embedded voices: espeak-ng, small, fast and without a download, in child processes.

Only `espeak/child.py`, the program of the children, loads the library.
"""

from collections.abc import Collection
from pathlib import Path
from typing import Final

from msgspec import Struct

from myna.engines.interface import EngineLimits, EngineVoice, SpeechResult, UnsupportedUtterance, Utterance
from myna.engines.jobs import EspeakJob
from myna.engines.pool.engine import JobEngine
from myna.engines.pool.pool import Pool
from myna.engines.voices import VoiceIds, check_unique
from myna.errors import ConfigError

_TABLE: Final = (
    ("zh-female-1", "清禾", "female", "zh-CN", "cmn+f3"),
    ("zh-female-2", "安妮", "female", "zh-CN", "cmn+Annie"),
    ("zh-female-3", "若溪", "female", "zh-CN", "cmn+f2"),
    ("zh-female-4", "知夏", "female", "zh-CN", "cmn+f4"),
    ("zh-male-1", "沐阳", "male", "zh-CN", "cmn+m3"),
    ("zh-male-2", "景行", "male", "zh-CN", "cmn+m7"),
    ("zh-male-3", "思远", "male", "zh-CN", "cmn+m2"),
    ("yue-female-1", "嘉欣", "female", "zh-HK", "yue+f3"),
    ("yue-female-2", "慧儀", "female", "zh-HK", "yue+f2"),
    ("yue-male-1", "家豪", "male", "zh-HK", "yue+m3"),
    ("en-us-female-1", "Emma", "female", "en-US", "en-us+f3"),
    ("en-us-female-2", "Annie", "female", "en-US", "en-us+Annie"),
    ("en-us-male-1", "James", "male", "en-US", "en-us+m3"),
    ("en-gb-female-1", "Alice", "female", "en-GB", "en+f3"),
    ("en-gb-male-1", "Oliver", "male", "en-GB", "en+m3"),
)
"""The id, name, gender and language of each voice, and its name in espeak-ng: a language, `+`, and a variant,
which sets the timbre."""
VOICES: Final = tuple(
    EngineVoice(voice_id=voice_id, name=name, gender=gender, language=language)
    for voice_id, name, gender, language, _ in _TABLE
)
_NATIVE: Final = {voice_id: native for voice_id, *_, native in _TABLE}


class Espeak(JobEngine[EspeakJob]):
    """Speaks in all voices, or in those of `only`. The parts of a sound come second by second, once the
    loudness of the first ten seconds is known."""

    label = "espeak"

    def __init__(self, limits: EngineLimits, only: Collection[str] | None = None) -> None:
        super().__init__(Pool("myna.engines.espeak.child", SpeechResult, limits, retries=True), limits)
        by_id = {voice.voice_id: voice for voice in VOICES}
        self.voices = VOICES if only is None else tuple(by_id[voice_id] for voice_id in only)

    def _job(self, utterance: Utterance) -> EspeakJob:
        """Raises UnsupportedUtterance."""
        native = _NATIVE.get(utterance.voice_id)
        if native is None or utterance.reference is not None:
            raise UnsupportedUtterance("This engine does not have this voice.")
        utterance.check_speed()
        language, _, variant = native.partition("+")  # English voices can't read Han
        return EspeakJob(
            text=utterance.encodable,
            voice=native,
            han_voice=f"cmn+{variant}" if language.startswith("en") else native,
            speed=utterance.speed,
            sound_max_s=utterance.sound_max_s,
        )


class EspeakConfig(Struct, frozen=True, forbid_unknown_fields=True, tag_field="kind", tag="espeak"):
    """espeak-ng with all of its voices, or with these."""

    voices: VoiceIds | None = None

    def build(self, limits: EngineLimits, folder: Path) -> Espeak:
        check_unique("voices", self.voices or ())
        known = [voice.voice_id for voice in VOICES]
        for voice_id in self.voices or ():
            if voice_id not in known:
                raise ConfigError(f"voices: espeak has no {voice_id!r}; it has {', '.join(known)}.")
        return Espeak(limits, self.voices)

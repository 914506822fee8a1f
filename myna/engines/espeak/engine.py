"""The embedded voices: espeak-ng, small, fast and without a download, in child processes.

Only `espeak/child.py`, the program of the children, loads the library.
"""

from collections.abc import Collection
from functools import partial
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct, structs

from myna.engines.interface import (
    NO_CLIENT,
    SPEED_MAX,
    SPEED_MIN,
    Client,
    EngineLimits,
    EngineVoice,
    SoundParts,
    SpeechResult,
    UnsupportedUtterance,
    Utterance,
)
from myna.engines.jobs import EspeakJob, TakePart, sound_of
from myna.engines.output_file import DurableFiles
from myna.engines.pool.admission import Admission, is_long
from myna.engines.pool.pool import Pool
from myna.engines.voices import VoiceIds, check_unique
from myna.errors import ConfigError
from myna.lib.sandbox import AllowedPaths


class _Timbre(msgspec.Struct, frozen=True):
    """A voice and its name in espeak-ng: a language, `+`, and a variant, which sets the timbre."""

    voice: EngineVoice
    language: str
    variant: str

    @property
    def native(self) -> str:
        return f"{self.language}+{self.variant}"

    @property
    def han(self) -> str:
        """The voice for Han characters: Mandarin in the same variant for English voices, which can't read
        them."""
        return f"cmn+{self.variant}" if self.language.startswith("en") else self.native


def _timbre(voice_id: str, name: str, gender: str, code: str, espeak: str) -> _Timbre:
    language, _, variant = espeak.partition("+")
    return _Timbre(EngineVoice(voice_id=voice_id, name=name, gender=gender, language=code), language, variant)


_TIMBRES: Final = (
    _timbre("zh-female-1", "清禾", "female", "zh-CN", "cmn+f3"),
    _timbre("zh-female-2", "安妮", "female", "zh-CN", "cmn+Annie"),
    _timbre("zh-female-3", "若溪", "female", "zh-CN", "cmn+f2"),
    _timbre("zh-female-4", "知夏", "female", "zh-CN", "cmn+f4"),
    _timbre("zh-male-1", "沐阳", "male", "zh-CN", "cmn+m3"),
    _timbre("zh-male-2", "景行", "male", "zh-CN", "cmn+m7"),
    _timbre("zh-male-3", "思远", "male", "zh-CN", "cmn+m2"),
    _timbre("yue-female-1", "嘉欣", "female", "zh-HK", "yue+f3"),
    _timbre("yue-female-2", "慧儀", "female", "zh-HK", "yue+f2"),
    _timbre("yue-male-1", "家豪", "male", "zh-HK", "yue+m3"),
    _timbre("en-us-female-1", "Emma", "female", "en-US", "en-us+f3"),
    _timbre("en-us-female-2", "Annie", "female", "en-US", "en-us+Annie"),
    _timbre("en-us-male-1", "James", "male", "en-US", "en-us+m3"),
    _timbre("en-gb-female-1", "Alice", "female", "en-GB", "en+f3"),
    _timbre("en-gb-male-1", "Oliver", "male", "en-GB", "en+m3"),
)
_BY_ID: Final = {timbre.voice.voice_id: timbre for timbre in _TIMBRES}

VOICES: Final[tuple[EngineVoice, ...]] = tuple(timbre.voice for timbre in _TIMBRES)


class Espeak:
    """Speaks with `processes` children, in all voices or in those of `only`; `queue_max` jobs may wait, each
    may run `job_deadline_s` seconds."""

    label = "espeak"
    clones: tuple[str, ...] = ()
    blends = False

    def __init__(
        self,
        *,
        processes: int,
        queue_max: int,
        job_deadline_s: float,
        account_max: int = 64,
        only: Collection[str] | None = None,
    ) -> None:
        self.voices = VOICES if only is None else tuple(_BY_ID[voice_id].voice for voice_id in only)
        self._pool = Pool(
            "myna.engines.espeak.child",
            SpeechResult,
            processes=processes,
            queue_max=queue_max,
            job_deadline_s=job_deadline_s,
            retries=True,
        )
        self._files = DurableFiles(self._pool.counted_as_waiting, at_once=processes)
        self.admission = Admission.of_pool(processes=processes, queue_max=queue_max, account_max=account_max)

    async def start(self, files: AllowedPaths | None = None) -> None:
        """Waits until all children are ready. Raises EngineUnavailable."""
        await self._pool.start(files)

    def up(self) -> bool:
        return self._pool.up()

    def full(self) -> bool:
        return self._pool.full()

    def pids(self) -> list[int]:
        """The process ids, for monitoring."""
        return self._pool.pids()

    async def speak(
        self, utterance: Utterance, path: Path, deadline_s: float, client: Client = NO_CLIENT
    ) -> SpeechResult:
        """Writes 22,050 Hz, or STREAM_RATE_HZ for a client that hears. For files after a failure see
        `DurableFiles.write`."""
        result = await self._files.write_job(_job(utterance), path, deadline_s, client, self._run)
        if client.sound_s and result.took_s:
            self.admission.measured(client.sound_s, result.took_s)
        return result

    def sound(self, utterance: Utterance, deadline_s: float, client: Client = NO_CLIENT) -> SoundParts:
        """See `StreamingEngine.sound`. The parts come second by second, once the loudness of the first ten
        seconds of sound is known."""
        return sound_of(partial(self._run, _job(utterance), deadline_s, client))

    async def close(self) -> None:
        await self._pool.close()

    async def _run(
        self, job: EspeakJob, deadline_s: float, client: Client, take_part: TakePart | None = None
    ) -> SpeechResult:
        return await self._pool.run(
            job,
            deadline_s,
            queue_key=client.queue_key,
            long=is_long(client.sound_s),
            progress=client.progress,
            unspoken=client.unspoken,
            disconnected=client.disconnected,
            take_part=take_part,
        )


def _job(utterance: Utterance) -> EspeakJob:
    """Raises UnsupportedUtterance."""
    timbre = _BY_ID.get(utterance.voice_id)
    if timbre is None or utterance.reference is not None:
        raise UnsupportedUtterance("This engine does not have this voice.")
    if not SPEED_MIN <= utterance.speed <= SPEED_MAX:
        raise UnsupportedUtterance(f"The speed must be from {SPEED_MIN} to {SPEED_MAX}.")
    return EspeakJob(
        text=utterance.encodable,
        voice=timbre.native,
        han_voice=timbre.han,
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
        return Espeak(**structs.asdict(limits), only=self.voices)

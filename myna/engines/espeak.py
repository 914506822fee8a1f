"""The embedded voices: espeak-ng, small, quick and without a download, in processes of its own.

The library is never loaded here; `espeak_child.py` is the program that does.
"""

import os
from collections.abc import Awaitable, Hashable
from pathlib import Path
from typing import Final

import msgspec

from myna.engines.espeak_job import EspeakJob
from myna.engines.lasting import Lasting
from myna.engines.process import Pool
from myna.engines.spoken import SPEED_MAX, SPEED_MIN, Spoken, UnfitUtterance, Utterance, Voice


class _Timbre(msgspec.Struct, frozen=True):
    """A voice and what espeak-ng calls it: a language, `+`, and the variant that gives it its sound."""

    voice: Voice
    language: str
    variant: str

    @property
    def native(self) -> str:
        return f"{self.language}+{self.variant}"

    @property
    def han(self) -> str:
        """What reads Han characters: an English voice can't, so Mandarin does with the same sound."""
        return f"cmn+{self.variant}" if self.language.startswith("en") else self.native


def _timbre(voice_id: str, name: str, gender: str, code: str, espeak: str) -> _Timbre:
    language, _, variant = espeak.partition("+")
    return _Timbre(Voice(voice_id, name, gender, code), language, variant)


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

VOICES: Final[tuple[Voice, ...]] = tuple(timbre.voice for timbre in _TIMBRES)


class Espeak:
    """Speaks with `processes` children; `queue_max` jobs may wait, each may run `job_deadline_s` seconds."""

    suffix = ".mp3"

    def __init__(self, *, processes: int, queue_max: int, job_deadline_s: float) -> None:
        self._pool = Pool(
            "myna.engines.espeak_child",
            Spoken,
            processes=processes,
            queue_max=queue_max,
            job_deadline_s=job_deadline_s,
        )
        self._files = Lasting(self._pool, at_once=processes)

    async def start(self) -> None:
        """All children are up and warm. Raises EngineDown."""
        await self._pool.start()

    def up(self) -> bool:
        """It can speak now."""
        return self._pool.up()

    def full(self) -> bool:
        """As many sentences wait as may: the next one would be refused."""
        return self._pool.full()

    def pids(self) -> list[int]:
        """The children, for whoever watches over them."""
        return self._pool.pids()

    async def speak(
        self, utterance: Utterance, path: Path, deadline_s: float, *, turn: Hashable = None
    ) -> Spoken:
        """The utterance as an mp3 (22,050 Hz, mono) at `path`, on disk for good, within `deadline_s` seconds.

        Calls of different `turn` take turns. What is left behind, and when, see `Lasting.spoken`. Raises an
        error of `spoken.py`.
        """
        timbre = _BY_ID.get(utterance.voice_id)
        if timbre is None:
            raise UnfitUtterance("This engine has no such voice.")
        if not SPEED_MIN <= utterance.speed <= SPEED_MAX:
            raise UnfitUtterance(f"The speed must be from {SPEED_MIN} to {SPEED_MAX}.")

        def spoken(part: Path) -> Awaitable[Spoken]:
            return self._pool.run(_job(timbre, utterance, path, part), deadline_s, turn=turn)

        return await self._files.spoken(path, deadline_s, spoken)

    async def close(self) -> None:
        """Ends the children; what waits or runs fails. May be called twice."""
        await self._pool.close()


def _job(timbre: _Timbre, utterance: Utterance, path: Path, part: Path) -> EspeakJob:
    return EspeakJob(
        text=utterance.text.encode(errors="ignore").decode(),  # a lone surrogate can't be sent nor spoken
        voice=timbre.native,
        han_voice=timbre.han,
        speed=utterance.speed,
        part=os.fsencode(part.absolute()),
        target=os.fsencode(path.absolute()),
    )

"""The job of the engine's child. A module that both processes import."""

import msgspec

from myna.engines.job_output import OutputFile


class EspeakJob(msgspec.Struct, frozen=True):
    """Speak `text` to `file`, or to the parent: see `child_sound.py`.

    `voice` and `han_voice` are espeak-ng's names; the second reads Han characters. `speed` is 0.25 to 4. More
    than `sound_max_s` seconds of sound is an error.
    """

    text: str
    voice: str
    han_voice: str
    speed: float
    sound_max_s: float
    file: OutputFile | None

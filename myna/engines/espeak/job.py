"""The job of the engine's child. A module that both processes import."""

import msgspec


class EspeakJob(msgspec.Struct, frozen=True):
    """Speak `text` to the file `target`, written as `part` in the same folder.

    Both paths are absolute, encoded by `os.fsencode`. `voice` and `han_voice` are espeak-ng's names; the
    second reads Han characters. `speed` is 0.25 to 4. More than `sound_max_s` seconds of sound is an error.
    """

    text: str
    voice: str
    han_voice: str
    speed: float
    sound_max_s: float
    part: bytes
    target: bytes

"""What the engine hands to its child. It stands apart since neither of the two may load the other."""

import msgspec


class EspeakJob(msgspec.Struct, frozen=True):
    """Say `text` into `target` by way of `part`, in one folder; both absolute, as `os.fsencode` gives them.

    `voice` and `han_voice` are espeak-ng's names; the second reads Han characters. `speed` is 0.25 to 4.
    """

    text: str
    voice: str
    han_voice: str
    speed: float
    part: bytes
    target: bytes

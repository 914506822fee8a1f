"""The job of the engine's child. A module that both processes import."""

from myna.engines.job_output import SpeechJob


class EspeakJob(SpeechJob, frozen=True):
    """Speak `text`. `voice` and `han_voice` are espeak-ng's names; the second reads Han characters. The speed
    is 0.25 to 4."""

    text: str
    voice: str
    han_voice: str
    speed: float

"""The child program that converts text to phonemes, run by `child_program.py`.

Neural models that take phonemes instead of text need it. It uses espeak-ng, so it is a separate program (see
`espeak/child.py`).
"""

import msgspec

from myna.engines.espeak.phonemizer import Phonemizer
from myna.engines.pool.child_main import RunningJob, Work
from myna.engines.sherpa.job import Phonemes, PhonemesJob


def warm(_setup: bytes) -> Work:
    """Loads everything that the first job needs, and returns the work."""
    phonemizer = Phonemizer()
    decoder = msgspec.msgpack.Decoder(PhonemesJob)

    def work(packed: bytes, _running: RunningJob) -> Phonemes:
        job = decoder.decode(packed)
        if job.han_language:
            return Phonemes(*phonemizer.phonemes_of_voice(job.text, job.language, job.han_language))
        return Phonemes(*phonemizer.phonemes(job.text, job.language))

    return work

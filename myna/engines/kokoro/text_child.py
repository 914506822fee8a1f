"""The child program that converts texts to the phonemes of Kokoro, run by `pool/child_program.py`.

It uses espeak-ng for English, so it is a separate program (see `espeak/child.py`).
"""

from collections import Counter
from functools import partial

import msgspec

from myna.engines.espeak.phonemizer import Phonemizer
from myna.engines.kokoro.job import TextJob, TextPieces
from myna.engines.kokoro.text.pieces import in_words, pieces
from myna.engines.pool.child_main import Work

_TRIAL = "好, OK."


def warm(_setup: bytes) -> Work:
    """Loads everything that the first job needs, and returns the work."""
    phonemizer = Phonemizer()
    foreign = partial(phonemizer.ipa, tied=True)
    decoder = msgspec.msgpack.Decoder(TextJob)

    def read(job: TextJob) -> TextPieces:
        accent = "en-gb" if job.language == "en-GB" else "en-us"
        english = partial(phonemizer.ipa, language=accent)
        unspoken: Counter[str] = Counter()
        found = pieces(job.text, job.language, english, foreign, unspoken, begin_early=job.begin_early)
        said = in_words(job.text, job.language) if job.with_reading else ""
        return TextPieces(found, dict(unspoken), said)

    read(TextJob(_TRIAL, "zh-CN"))
    return lambda packed, _running: read(decoder.decode(packed))

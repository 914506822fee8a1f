"""Kokoro alone, with the code of Myna's child process: `python -m bench.kokoro_alone MODEL SECONDS TEXT`.

Prints a JSON line: how long one text takes, in seconds, as a bare run of the model and with all that the
child does to its sound, and the length of that sound. The text becomes phonemes
before that, in a separate program.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from myna.engines.kokoro.child import LoadedModel
from myna.engines.kokoro.job import RATE_HZ, KokoroModel, PieceJob, PieceSound, StyleShare
from myna.engines.kokoro.symbols import NUMBERS

VOICE = "zf_xiaobei"
_SPLIT = """
import sys
from functools import partial
from myna.engines.espeak.phonemizer import Phonemizer
from myna.engines.kokoro.text.pieces import pieces
english = partial(Phonemizer().ipa, language="en-us")
print("".join(piece.phonemes for piece in pieces(sys.argv[1], "zh-CN", english)))
"""


def main(folder: Path, seconds: float, text: str) -> None:
    """One figure after the other, each for half of the time."""
    spoken = phonemes(text)
    model = LoadedModel(KokoroModel(os.fsencode(folder), threads=1, provider="cpu"))
    style = [StyleShare(VOICE, sound=1.0, prosody=1.0)]
    row = model._style(style, len(spoken))
    tokens = [[0, *(NUMBERS[symbol] for symbol in spoken), 0]]

    def bare() -> object:
        inputs = {"tokens": tokens, "style": row, "speed": np.array([1.0], np.float32)}
        return model._session.run(None, inputs)

    def whole() -> PieceSound:
        return model.speak(PieceJob(spoken, style, 1.0))

    figures = {name: _seconds(work, seconds / 2) for name, work in (("model", bare), ("child", whole))}
    print(json.dumps(figures | {"audio_s": len(whole().pcm) / 2 / RATE_HZ}))


def phonemes(text: str) -> str:
    """The symbols of the model for a Mandarin text."""
    done = subprocess.run([sys.executable, "-c", _SPLIT, text], check=True, capture_output=True, text=True)
    return done.stdout.strip()


def _seconds(work: Callable[[], object], seconds: float) -> float:
    """The mean of as many runs as fit."""
    work()
    count, began = 0, time.perf_counter()
    while time.perf_counter() < began + seconds:
        work()
        count += 1
    return (time.perf_counter() - began) / count


if __name__ == "__main__":
    main(Path(sys.argv[1]), float(sys.argv[2]), sys.argv[3])

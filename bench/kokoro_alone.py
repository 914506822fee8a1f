"""Kokoro alone, with the code of Myna's child process: `python -m bench.kokoro_alone MODEL SECONDS TEXT`.

Prints a JSON line: how long one text takes, in seconds, as a bare run of the model and with all that the
child does to its sound, and the length of that sound. The text becomes phonemes before that, in a separate
program.
"""

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnxruntime

from myna.engines.kokoro.child import LoadedModel
from myna.engines.kokoro.engine import has_vnni
from myna.engines.kokoro.job import MODEL_FILE, RATE_HZ, KokoroModel, PieceJob, PieceSound, StyleShare
from myna.engines.kokoro.symbols import NUMBERS

VOICE = "zf_xiaobei"
_SPLIT = """
import sys
from myna.engines.espeak.phonemizer import Phonemizer
from myna.engines.kokoro.job import TextJob
from myna.engines.kokoro.text.pieces import read
print("".join(piece.phonemes for piece in read(TextJob(sys.argv[1], "zh-CN"), Phonemizer().ipa).pieces))
"""


def main(folder: Path, seconds: float, text: str) -> None:
    """Both in turns, since the machine may be slower in one half of the time than in the other."""
    spoken = phonemes(text)
    model = LoadedModel(KokoroModel(os.fsencode(folder), threads=1, provider="cpu", signed=has_vnni()))
    style = [StyleShare(VOICE, sound=1.0, prosody=1.0)]
    row = model.style(style, len(spoken))
    tokens = [[0, *(NUMBERS[symbol] for symbol in spoken), 0]]

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(folder / MODEL_FILE, options)

    def bare() -> object:
        return session.run(None, {"tokens": tokens, "style": row, "speed": np.array([1.0], np.float32)})

    def whole() -> PieceSound:
        return model.speak(PieceJob(spoken, style, 1.0))

    figures = _in_turns({"model": bare, "child": whole}, seconds)
    print(json.dumps(figures | {"audio_s": len(whole().pcm) / 2 / RATE_HZ}))


def phonemes(text: str) -> str:
    """The symbols of the model for a Mandarin text."""
    done = subprocess.run([sys.executable, "-c", _SPLIT, text], check=True, capture_output=True, text=True)
    return done.stdout.strip()


def _in_turns(works: dict[str, Callable[[], object]], seconds: float) -> dict[str, float]:
    """The median time of each work, of as many turns as fit."""
    for work in works.values():
        work()
    taken: dict[str, list[float]] = {name: [] for name in works}
    ends = time.perf_counter() + seconds
    while time.perf_counter() < ends:
        for name, work in works.items():
            began = time.perf_counter()
            work()
            taken[name].append(time.perf_counter() - began)
    return {name: statistics.median(times) for name, times in taken.items()}


if __name__ == "__main__":
    main(Path(sys.argv[1]), float(sys.argv[2]), sys.argv[3])

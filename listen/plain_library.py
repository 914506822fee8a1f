"""Kokoro as its model's own tools use it: phonemes by misaki and phonemizer, sound by onnxruntime; no Myna.

`python plain_library.py FOLDER` reads one JSON object from standard input: `vocabulary`, the numbers of the
phonemes, and `orders`, each with `text`, `voice` and `path`. It writes each sound as a wav and prints a line
with the seconds of sound and those that it took, and at last the peak of its memory. It runs in a separate
environment (see `plain.py`), since it loads espeak-ng, and misaki does not exist for Python 3.13.
"""

import json
import re
import resource
import sys
import time
from pathlib import Path
from typing import Any

import espeakng_loader
import numpy
import onnxruntime
import soundfile
from misaki import zh
from phonemizer import phonemize
from phonemizer.backend.espeak.wrapper import EspeakWrapper

RATE_HZ = 24_000
PHONEMES_MAX = 509
_PARTS = re.compile(r"[A-Za-z][A-Za-z0-9'\- ]*|[^A-Za-z]+")


def main(folder: Path) -> None:
    """Speaks all orders, one after the other."""
    asked = json.load(sys.stdin)
    EspeakWrapper.set_library(espeakng_loader.get_library_path())
    EspeakWrapper.set_data_path(espeakng_loader.get_data_path())
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1  # as many as a child process of Myna has
    session = onnxruntime.InferenceSession(folder / "model.onnx", options, providers=["CPUExecutionProvider"])
    mandarin = zh.ZHG2P()
    mandarin("你好")  # loads its dictionary
    for order in asked["orders"]:
        begun, cpu_s = time.perf_counter(), time.process_time()
        said = phonemes(mandarin, order["text"])
        numbers = [asked["vocabulary"][sign] for sign in said if sign in asked["vocabulary"]][:PHONEMES_MAX]
        style = numpy.fromfile(folder / "voices" / f"{order['voice']}.bin", dtype=numpy.float32)
        inputs = {
            "tokens": [[0, *numbers, 0]],
            "style": style.reshape(-1, 1, 256)[len(numbers)],
            "speed": numpy.ones(1, dtype=numpy.float32),
        }
        samples = session.run(None, inputs)[0]
        took_s, cpu_s = time.perf_counter() - begun, time.process_time() - cpu_s
        soundfile.write(order["path"], samples, RATE_HZ)
        print(json.dumps({"seconds": len(samples) / RATE_HZ, "took_s": took_s, "cpu_s": cpu_s}), flush=True)
    peak_bytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(json.dumps({"peak_bytes": peak_bytes}))


def phonemes(mandarin: Any, text: str) -> str:
    """Each run of Latin letters by espeak-ng, the rest by misaki."""
    parts = _PARTS.findall(text)
    return "".join(f" {_english(part)} " if part[0].isalpha() and part[0].isascii() else mandarin(part)[0]
                   for part in parts)  # fmt: skip


def _english(part: str) -> str:
    said = phonemize(part, language="en-us", backend="espeak", preserve_punctuation=True, with_stress=True)
    return str(said).strip().replace("r", "ɹ").replace("x", "k")


if __name__ == "__main__":
    main(Path(sys.argv[1]))

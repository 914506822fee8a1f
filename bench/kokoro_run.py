"""One run of Kokoro in a new process: `python -m bench.kokoro_run MODEL PHONEMES SPEED`; prints JSON."""

import os
import sys
from typing import NamedTuple

import msgspec

from bench import processes
from myna.engines.kokoro.child import LoadedModel
from myna.engines.kokoro.engine import has_vnni
from myna.engines.kokoro.job import RATE_HZ, KokoroModel, PieceJob, StyleShare

STYLE = [StyleShare("zf_xiaobei", sound=1.0, prosody=1.0)]


class Run(NamedTuple):
    """The length of the sound and the peak memory of the process."""

    audio_s: float
    peak_mb: float


def main(folder: str, phonemes: str, speed: float) -> None:
    model = LoadedModel(KokoroModel(os.fsencode(folder), threads=1, provider="cpu", signed=has_vnni()))
    sound = model.speak(PieceJob(phonemes, STYLE, speed))
    peak_mb = processes.memory_bytes(os.getpid(), "VmHWM") / 1e6
    print(msgspec.json.encode(Run(len(sound.pcm) / 2 / RATE_HZ, peak_mb)).decode())


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], float(sys.argv[3]))

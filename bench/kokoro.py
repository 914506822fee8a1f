"""`python -m bench kokoro`: what a run of the neural model takes, and how its processes share the cores.

Prints tables for decision 0016, in Markdown. Needs the model in the cache: `make model-kokoro`.
"""

import asyncio
import os
import secrets
import statistics
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Awaitable
from pathlib import Path
from typing import NamedTuple

import msgspec

from bench import kokoro_alone, neural, processes, speech
from bench.contenders import ROOT
from bench.kokoro_run import Run
from bench.results import Table
from demo.kokoro_model import cached
from myna.engines.interface import EngineLimits, Utterance
from myna.engines.kokoro.engine import KokoroConfig

SYMBOLS = (20, 60, 150, 300, 500)
SPEEDS = (0.25, 0.5, 1.0, 2.0, 4.0)
SENTENCES = 3
"""Of the long text."""
CLIENTS = 2
DEADLINE_S = 600


class Split(NamedTuple):
    """How an engine uses two cores."""

    processes: int
    threads: int


SPLITS = (Split(2, 1), Split(1, 2))


def tables(folder: Path, rounds: int) -> str:
    """All of the tables."""
    phonemes = kokoro_alone.phonemes(speech.TEXT)
    runs = [_in_new_process((phonemes * max(SYMBOLS))[:count], 1.0) for count in SYMBOLS]
    at_speed = [_in_new_process(phonemes, speed).audio_s * speed for speed in SPEEDS]
    symbols = Table(
        ["symbols in one run", *map(str, SYMBOLS)],
        [["sound, s", *(f"{run.audio_s:.1f}" for run in runs)],
         ["memory, MB", *(f"{run.peak_mb:.0f}" for run in runs)]],
    )  # fmt: skip
    speeds = Table(
        ["speed", *(f"{speed:g}" for speed in SPEEDS)],
        [["length × speed, s", *(f"{length:.2f}" for length in at_speed)]],
    )
    load = f"Load average: {os.getloadavg()[0]:.1f}."
    return "\n\n".join(map(str, (symbols, speeds, load, asyncio.run(_splits(folder, rounds)))))


def _in_new_process(phonemes: str, speed: float) -> Run:
    command = [sys.executable, "-m", "bench.kokoro_run", str(cached()), phonemes, str(speed)]
    done = subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    return msgspec.json.decode(done.stdout, type=Run)


async def _splits(folder: Path, rounds: int) -> Table:
    """Medians of rounds in turns, each with new processes."""
    figures: dict[Split, list[dict[str, float]]] = defaultdict(list)
    for _ in range(rounds):
        for split in SPLITS:
            figures[split].append(await _round(split, folder))
    head = ["", *(f"processes: {split.processes}, threads of each: {split.threads}" for split in SPLITS)]
    medians = {
        name: [f"{statistics.median(line[name] for line in figures[split]):.2f}" for split in SPLITS]
        for name in figures[SPLITS[0]][0]
    }
    return Table(head, [[name, *each] for name, each in medians.items()])


async def _round(split: Split, folder: Path) -> dict[str, float]:
    limits = EngineLimits(processes=split.processes, queue_max=CLIENTS, job_deadline_s=DEADLINE_S)
    engine = KokoroConfig(str(cached()), threads=split.threads).build(limits, folder)
    program = processes.Program(os.getpid())

    async def speak(text: str, times: int = 1) -> None:
        for _ in range(times):
            path = folder / f"{secrets.token_hex(8)}.mp3"
            await engine.speak(Utterance(text, neural.VOICE, 1.0), path, DEADLINE_S)

    try:
        ready_s = await _seconds(engine.start())
        one_s = await _seconds(speak(speech.TEXT))
        long_s = await _seconds(speak(speech.TEXT * SENTENCES))
        cpu_s = program.cpu_s()
        all_s = await _seconds(asyncio.gather(*(speak(speech.TEXT, SENTENCES) for _ in range(CLIENTS))))
        return {
            "until ready, s": ready_s,
            "one sentence, s": one_s,
            f"a text of {SENTENCES} sentences, s": long_s,
            f"{CLIENTS} clients, sentences/s": CLIENTS * SENTENCES / all_s,
            "processor time of a sentence, s": (program.cpu_s() - cpu_s) / (CLIENTS * SENTENCES),
            "memory, MB": program.peaks_bytes()["myna.engines.kokoro.child"] / 1e6,
        }
    finally:
        await engine.close()


async def _seconds(work: Awaitable[object]) -> float:
    began = time.perf_counter()
    await work
    return time.perf_counter() - began

"""`make bench-speech`: POST /tts end to end beside the engine alone, and chat beside all that speech."""

import json
import statistics
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import msgspec

from bench import contenders, fill, load, processes, results
from bench.contenders import ROOT
from bench.fill import Size
from bench.load import Figures, Target, Work
from bench.results import Machine
from bench.table import set_up

CLIENTS = (1, 8, 64)
CHAT_CLIENTS = (1, 8, 64)
SATURATING = 64
IN_MEMORY = Path("/dev/shm")  # noqa: S108  made unique below
TTS = Work(path="/v1/tts", body=json.dumps({"text": fill.TEXT, "voice_id": "zh-female-1"}), keys=Size().keys)


class Alone(msgspec.Struct):
    """Sentences a second of one process on one core."""

    sentences_s: float


class Beside(msgspec.Struct):
    """Chat's p99 in ms without speech, and while speech keeps every engine process busy."""

    quiet: Figures
    beside_speech: Figures
    sentences_s: float


class Speech(msgspec.Struct):
    """A whole run. `audio_s` is the sound of one sentence; `served` by cores, then by clients."""

    machine: Machine
    versions: dict[str, str]
    rounds_of_s: tuple[int, int]
    text: str
    audio_s: float
    alone: dict[str, Alone]
    served: dict[str, dict[str, Figures]]
    chat: dict[str, Beside]


def measure(folder: Path, rounds: int, seconds: int) -> Speech:
    """The engine alone, then the service on one core and on two."""
    with ExitStack() as stack:
        setup = set_up(stack, folder, postgresql=False)
        memory = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=IN_MEMORY)))
        one, two = processes.cores().program, processes.cores().two
        espeak = {"MYNA_SPEECH": "espeak"}
        on_one = stack.enter_context(contenders.myna("one-core", setup, TTS, on=one, settings=espeak))
        on_two = stack.enter_context(contenders.myna("two-cores", setup, TTS, on=two, settings=espeak))
        alone: dict[str, list[float]] = {}
        audio_s = 0.0

        def between() -> None:
            nonlocal audio_s
            for line in _alone(folder, memory, seconds):
                alone.setdefault(line["name"], []).append(line["sentences_s"])
                audio_s = line["audio_s"]

        targets = [on_one._replace(name="1 core"), on_two._replace(name="2 cores")]
        served: dict[str, dict[str, Figures]] = {target.name: {} for target in targets}
        for clients in CLIENTS:
            for name, figures in load.alternate(targets, clients, rounds, seconds, between).items():
                served[name][str(clients)] = load.medians(figures)
        return Speech(
            machine=results.machine(folder),
            versions=contenders.versions(setup),
            rounds_of_s=(rounds, seconds),
            text=fill.TEXT,
            audio_s=audio_s,
            alone={name: Alone(statistics.median(rates)) for name, rates in alone.items()},
            served=served,
            chat={str(clients): beside(on_one, clients, rounds, seconds) for clients in CHAT_CLIENTS},
        )


def beside(speaking: Target, clients: int, rounds: int, seconds: int) -> Beside:
    """Chat on the core that engines and server share, in turns without and with speech."""
    chat = load.target_of(
        f"chat-{clients}", speaking.port, speaking.program, speaking.script.parent, Work(keys=Size().keys)
    )
    quiet, busy, spoken = [], [], []
    load.one_round(chat, clients, 1)
    for _ in range(rounds):
        quiet.append(load.one_round(chat, clients, seconds))
        speech = load.Running(speaking, SATURATING, seconds + 2)
        busy.append(load.one_round(chat, clients, seconds))
        spoken.append(speech.figures().calls_s)
    return Beside(load.medians(quiet), load.medians(busy), statistics.median(spoken))


def _alone(folder: Path, memory: Path, seconds: int) -> list[dict[str, Any]]:
    command = [sys.executable, "-m", "bench.espeak_alone", str(folder), str(memory), str(seconds), fill.TEXT]
    with processes.pinned(processes.cores().program):
        done = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    return [json.loads(line) for line in done.stdout.splitlines()]

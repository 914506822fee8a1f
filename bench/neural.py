"""`python -m bench neural`: the neural voice by POST /tts compared with the bare model, the time to the first
sound of a long text, and chat during that speech.

Needs the model in the cache: `make model-kokoro`. The load is of sentences that are one piece each, so that
a client keeps one process busy.
"""

import json
import statistics
import subprocess
import sys
import threading
import time
from contextlib import ExitStack
from operator import attrgetter
from pathlib import Path
from typing import Any

import msgspec

from bench import contenders, load, processes, results
from bench.contenders import ROOT
from bench.fill import Size
from bench.load import Figures, Target, Work
from bench.results import Machine
from bench.speech import LONG_TEXT, TEXT, streamed
from bench.table import set_up
from demo.kokoro_model import cached

VOICE = "zf_xiaobei"
CLIENTS = (1, 2)
CHAT_CLIENTS = 8
SATURATING = 4
SECONDS_MIN = 20
TTS = Work(path="/v1/tts", body=json.dumps({"text": TEXT, "voice_id": VOICE}), keys=Size().keys)


class Beside(msgspec.Struct):
    """Chat without speech, and while speech keeps every process of the engine busy."""

    quiet: Figures
    beside_speech: Figures


class FirstByte(msgspec.Struct):
    """When the first byte of a streamed text of `characters` came, and how long of it the process of the
    engine worked. The difference is what the service adds: the work on one sentence takes 4 to 6 s on a
    shared machine, so two texts can't be compared within 50 ms."""

    characters: int
    after_s: float
    work_s: float

    @property
    def added_s(self) -> float:
        return self.after_s - self.work_s


class Neural(msgspec.Struct):
    """A whole run. `factor` is the seconds of work for a second of the sound that is served: of the bare
    model, of the child, and of POST /tts with one client on one core. `sentences_s` on two cores, by
    clients, where LONG_TEXT is streamed too."""

    machine: Machine
    versions: dict[str, str]
    rounds_of_s: tuple[int, int]
    text: str
    audio_s: float
    factor: dict[str, float]
    sentences_s: dict[str, float]
    first_byte: FirstByte
    chat: Beside
    peak_mb: dict[str, float]


def measure(folder: Path, rounds: int, seconds: int) -> Neural:
    """Rounds in turns; a round is SECONDS_MIN long at least, since a sentence takes seconds."""
    seconds = max(seconds, SECONDS_MIN)
    with ExitStack() as stack:
        setup = set_up(stack, folder, postgresql=False)
        one, two = processes.cores().program, processes.cores().two
        settings = {"MYNA_SPEECH": f"kokoro:{cached()}"}
        on_one = stack.enter_context(contenders.myna("one-core", setup, TTS, on=one, settings=settings))
        on_two = stack.enter_context(contenders.myna("two-cores", setup, TTS, on=two, settings=settings))
        alone, served = [], []
        rates: dict[str, list[float]] = {str(clients): [] for clients in CLIENTS}
        firsts: list[FirstByte] = []
        for target in (on_one, on_two):
            target.program.pause()
        for _ in range(rounds):
            alone.append(_alone(seconds))
            served.append(_rate(on_one, 1, seconds))
            for clients in CLIENTS:
                rates[str(clients)].append(_rate(on_two, clients, seconds))
            firsts.append(_first_byte(on_two, LONG_TEXT))
        audio_s = float(alone[0]["audio_s"])
        factor = {
            **{
                name: statistics.median(line[name] for line in alone) / audio_s for name in ("model", "child")
            },
            "POST /tts": 1 / statistics.median(served) / audio_s,
        }
        return Neural(
            machine=results.machine(folder),
            versions=contenders.versions(setup),
            rounds_of_s=(rounds, seconds),
            text=TEXT,
            audio_s=audio_s,
            factor=factor,
            sentences_s={name: statistics.median(each) for name, each in rates.items()},
            first_byte=sorted(firsts, key=attrgetter("added_s"))[len(firsts) // 2],
            chat=_beside(on_two, rounds, seconds),
            peak_mb=_peaks(on_two),
        )


def table(found: Neural) -> str:
    """The figures as text."""
    lines = [
        f"{name:12} {factor:.3f} s of work for a second of sound" for name, factor in found.factor.items()
    ]
    lines += [f"{name} clients: {rate:.3f} sentences/s" for name, rate in found.sentences_s.items()]
    first = found.first_byte
    lines.append(
        f"{first.characters} characters: first byte after {first.after_s:.3f} s,"
        f" {first.work_s:.3f} s of work on the first sentence"
    )
    lines.append(
        f"chat p99: {found.chat.quiet.p99_ms:.1f} ms, beside speech {found.chat.beside_speech.p99_ms:.1f} ms"
    )
    lines += [f"{name}: {peak:.0f} MB" for name, peak in found.peak_mb.items()]
    return "\n".join(lines)


def _rate(target: Target, clients: int, seconds: int) -> float:
    """Sentences a second over whole sentences: each client begins its last one before the end."""
    target.program.resume()
    load.ask(target)
    done: list[float] = []
    began = time.perf_counter()

    def speak() -> None:
        while time.perf_counter() < began + seconds:
            load.ask(target)
            done.append(time.perf_counter())

    threads = [threading.Thread(target=speak) for _ in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    target.program.pause()
    return len(done) / (max(done) - began)


def _first_byte(target: Target, text: str) -> FirstByte:
    """How long a client waits for the first byte of the sound. Until then one process of the engine works."""
    target.program.resume()
    before = target.program.cpu_nanos()
    with streamed(target, text, VOICE) as after_s:
        work = max(nanos - before.get(pid, 0) for pid, nanos in target.program.cpu_nanos().items())
    target.program.pause()
    return FirstByte(characters=len(text), after_s=after_s, work_s=work / 1e9)


def _beside(speaking: Target, rounds: int, seconds: int) -> Beside:
    chat = load.target_of(
        "chat", speaking.port, speaking.program, speaking.script.parent, Work(keys=Size().keys)
    )
    quiet, busy = [], []
    load.one_round(chat, CHAT_CLIENTS, 1)
    for _ in range(rounds):
        quiet.append(load.one_round(chat, CHAT_CLIENTS, seconds // 4))
        speech = load.Running(speaking, SATURATING, seconds // 2)
        busy.append(load.one_round(chat, CHAT_CLIENTS, seconds // 4))
        speech.figures()
    return Beside(load.medians(quiet), load.medians(busy))


def _peaks(target: Target) -> dict[str, float]:
    """The peak memory of the service and of its largest child."""
    pids = processes.tree(target.program.pid)
    children = [processes.memory_bytes(pid, "VmHWM") for pid in pids if pid != target.program.pid]
    return {
        "service": processes.memory_bytes(target.program.pid, "VmHWM") / 1e6,
        "largest child": max(children) / 1e6,
    }


def _alone(seconds: int) -> dict[str, Any]:
    command = [sys.executable, "-m", "bench.kokoro_alone", str(cached()), str(seconds), TEXT]
    with processes.pinned(processes.cores().program):
        done = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found

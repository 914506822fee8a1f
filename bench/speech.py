"""`make bench-speech`: POST /tts end to end beside the engine alone, and chat beside all that speech."""

import http.client
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from http import HTTPStatus
from pathlib import Path
from typing import Any

import msgspec

from bench import contenders, fill, load, processes, results
from bench.contenders import ROOT
from bench.fill import Size
from bench.load import KEY_FORMAT, Figures, Target, Work
from bench.processes import CannotRun
from bench.results import Machine
from bench.table import set_up

CLIENTS = (1, 8, 64)
CHAT_CLIENTS = (1, 8, 64)
SATURATING = 64
IN_MEMORY = Path("/dev/shm")  # noqa: S108  made unique below
VOICE = "zh-female-1"
TTS = Work(path="/v1/tts", body=json.dumps({"text": fill.TEXT, "voice_id": VOICE}), keys=Size().keys)
TEXT = "明天早上八点半我们在会议室讨论新产品的发布计划。"
LONG_TEXT = (
    "明天早上八点半我们在会议室讨论新产品的发布计划。请大家提前准备好各自部门的报告，并且把需要协调的问题写在共享文档里。"
    "会议大约持续两个小时，中间会有十五分钟的休息时间。如果有人不能到场，请在今天下班之前告诉行政部门的同事。"
    "上个月的销售情况比我们预期的要好一些，尤其是南方的几个城市。不过物流的成本也上升了，所以我们需要重新考虑仓库的位置。"
    "技术团队已经完成了第一阶段的测试，结果令人满意。接下来的重点是改善用户的体验，并且减少等待的时间。"
    "最后，希望每个人都能提出自己的意见，让我们把这件事情做得更好。会议结束以后，我们会把所有的决定整理成一份文件，"
    "发给每一位参加的同事。如果有任何疑问，可以联系项目的负责人。"
)
"""300 characters, whose first sentence is TEXT."""
STREAMS = 5
STREAM_PATH = "/openai/v1/audio/speech"
FIRST_BYTE_MAX_S = 300


class Alone(msgspec.Struct):
    """Sentences a second of one process on one core."""

    sentences_s: float


class Beside(msgspec.Struct):
    """Chat's p99 in ms without speech, and while speech keeps every engine process busy."""

    quiet: Figures
    beside_speech: Figures
    sentences_s: float


class FirstBytes(msgspec.Struct):
    """How long a client waits for the first byte of streamed sound, of TEXT and of LONG_TEXT."""

    sentence_ms: float
    text_ms: float


class Speech(msgspec.Struct):
    """A whole run. `audio_s` is the sound of one sentence; `served` by cores, then by clients."""

    machine: Machine
    versions: dict[str, str]
    rounds_of_s: tuple[int, int]
    text: str
    audio_s: float
    alone: dict[str, Alone]
    served: dict[str, dict[str, Figures]]
    first_byte: FirstBytes
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
            first_byte=first_bytes(on_one, rounds),
            chat={str(clients): beside(on_one, clients, rounds, seconds) for clients in CHAT_CLIENTS},
        )


def first_bytes(target: Target, rounds: int) -> FirstBytes:
    """Medians of STREAMS responses a round, in turns, on a service without another call."""
    target.program.resume()
    waits: dict[str, list[float]] = {TEXT: [], LONG_TEXT: []}
    for _ in range(rounds * STREAMS):
        for text, found in waits.items():
            with streamed(target, text, VOICE) as after_s:
                found.append(after_s * 1e3)
    target.program.pause()
    return FirstBytes(*map(statistics.median, waits.values()))


@contextmanager
def streamed(target: Target, text: str, voice: str) -> Iterator[float]:
    """Yields the seconds to the first byte of a text's sound. Then the rest is read: after a disconnect the
    service may replace a process of the engine, which would disturb the next measurement."""
    body = json.dumps({"model": "tts-1", "input": text, "voice": voice, "response_format": "pcm"})
    headers = {"Authorization": f"Bearer {KEY_FORMAT % 1}", "Content-Type": "application/json"}
    with closing(http.client.HTTPConnection("127.0.0.1", target.port, timeout=FIRST_BYTE_MAX_S)) as client:
        client.connect()
        began = time.perf_counter()
        client.request("POST", STREAM_PATH, body, headers)
        answer = client.getresponse()
        if answer.status != HTTPStatus.OK or not answer.read(1):
            raise CannotRun(f"POST {STREAM_PATH} answered {answer.status}")
        yield time.perf_counter() - began
        answer.read()


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

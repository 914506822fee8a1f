"""A running service, used as a client uses it: its voices, the sound of a sentence, times and memory."""

import contextlib
import http.client
import json
import time
from collections.abc import Iterator
from http import HTTPStatus
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from bench.processes import Program
from listen import sound
from myna.engines.espeak.engine import VOICES
from tests.rig.commands import CommandLine
from tests.rig.service import Service

DEADLINE_S = 600
"""Of a request, so that a run ends well while other programs use the processor."""
UNITS = 10**6
LOG_LINES = 5
KOKORO, ESPEAK = "Kokoro", "espeak-ng"

_OF_ESPEAK = {voice.voice_id for voice in VOICES}


class Voice(NamedTuple):
    """A voice of `GET /v1/voices`; `language` as in zh-CN."""

    voice_id: str
    name: str
    language: str

    @property
    def heard_in(self) -> str:
        """`zh`, `en`, or empty for a language in which nothing is heard, such as Cantonese (zh-HK)."""
        language = self.language.partition("-")[0]
        return "zh" if self.language == "zh-CN" else "en" if language == "en" else ""

    @property
    def family(self) -> str:
        """The engine of the voice."""
        return ESPEAK if self.voice_id in _OF_ESPEAK else KOKORO


class Spoken(NamedTuple):
    """The sound of a text in a file.

    `took_s` until the request was answered, `first_s` until the first bytes of the sound came, `cpu_s` of
    processor time, and `seconds` of sound.
    """

    path: Path
    took_s: float
    first_s: float
    cpu_s: float
    seconds: float


class Speaker:
    """A service and a key of an account that may speak a lot."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._program = Program(service.pid)
        self._key = service.account(units=UNITS).key(scopes=("tts",)).plain

    def voices(self) -> list[Voice]:
        """The first is the default."""
        rows = json.loads(self._call("GET", f"{self._service.base_url}/voices").body)["data"]
        return [Voice(row["voice_id"], row["name"], row["language"]) for row in rows]

    def speak(self, text: str, voice: Voice, path: Path) -> Spoken:
        """Has the text spoken and fetches the sound, as a client does."""
        begun, cpu_s = time.perf_counter(), self._program.cpu_s()
        order = {"text": text, "voice_id": voice.voice_id}
        answer = self._call("POST", f"{self._service.base_url}/tts", order)
        took_s = time.perf_counter() - begun
        audio = self._call("GET", json.loads(answer.body)["audio_url"])
        path.write_bytes(audio.body)
        samples, rate_hz = sound.read(path)
        cpu_s = self._program.cpu_s() - cpu_s
        return Spoken(path, took_s, audio.first_at_s - begun, cpu_s, len(samples) / rate_hz)

    def peak_bytes(self) -> dict[str, int]:
        """The peak of resident memory of each kind of process, summed over its processes."""
        return self._program.peaks_bytes()

    def _call(self, method: str, url: str, data: Any = None) -> "_Answer":
        parts = urlsplit(url)
        connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=DEADLINE_S)
        body = None if data is None else json.dumps(data).encode()
        with contextlib.closing(connection):
            connection.request(method, parts.path, body, {"Authorization": f"Bearer {self._key}"})
            answer = connection.getresponse()
            first = answer.read(1)
            found = _Answer(time.perf_counter(), first + answer.read())
        if answer.status != HTTPStatus.OK:
            log = "\n".join(self._service.log_lines[-LOG_LINES:])
            raise RuntimeError(f"{method} {parts.path}: {answer.status} {found.body[:400]!r}\n{log}")
        return found


class _Answer(NamedTuple):
    """`first_at_s`, by the performance counter, is when the first byte of the body came."""

    first_at_s: float
    body: bytes


@contextlib.contextmanager
def running(folder: Path, speech: str, model: Path) -> Iterator[Speaker]:
    """`myna serve` with this MYNA_SPEECH, on a new database in the folder, until the block ends. It finds the
    `model` Kokoro in its data folder."""
    commands = CommandLine()
    limits = {"MYNA_UPSTREAM_IDLE_S": str(DEADLINE_S), "MYNA_CALL_DEADLINE_S": str(DEADLINE_S)}
    service = Service(folder, commands, speech=speech, env=limits)
    models = folder / "data" / "models"
    models.mkdir(parents=True)
    (models / "kokoro").symlink_to(model, target_is_directory=True)
    try:
        yield Speaker(service.start())
    finally:
        service.kill()
        commands.close()

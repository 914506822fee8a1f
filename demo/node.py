"""`python -m demo.node`: a service without voices, and a compute node that speaks and clones for it.

It uses only this machine and a temporary folder. Exit codes: 0: all steps succeeded, or Ctrl-C after them;
1: a step failed; 130: Ctrl-C before the end.
"""

import json
import os
import socket
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from demo import tiny_voices
from demo.output import Output
from demo.program import DemoFailed, Program, keep_running, run_demo, stops_after_tour
from demo.service import ACCOUNT, Service, User, exchange
from myna.engines.voices import SAMPLES
from myna.settings import PREFIX, Settings

LANGUAGE = "zh"
VOICE = "zh-female-1"
SAMPLE_TEXT = "你好，我是八哥。今天天气很好，我们一起去公园散步吧。"
CLONE_TEXT = "春眠不觉晓，处处闻啼鸟。夜来风雨声，花落知多少。"
EFFORT = 1200
"""Makes the tiny model take a second or two for a sentence, as real ones do."""
NODE_TOML = """\
slots = 1

[[engine]]
kind = "espeak"

[[engine]]
kind = "sherpa"
folder = "tiny-model"
"""
WAIT_S = 60.0
LOOK_EVERY_S = 0.1
COMPLETED = 2


class Progress(NamedTuple):
    """The state of a task or voice, whether it is final, and the response that says so."""

    state: str
    final: bool
    found: dict[str, Any]


class NodeTour:
    """The actions of a node's owner and of a caller. Every method raises DemoFailed if a step fails."""

    def __init__(self, user: User, service: Service, folder: Path, output: Output) -> None:
        self._user = user
        self._service = service
        self._folder = folder
        self._output = output
        self.data = ("--data", "garage")
        self.config = ("--config", "node.toml")
        self.voice_id = ""

    def prepare(self) -> None:
        """Adds an account, joins a node and checks its engines."""
        self._user.open_account()
        self._order_without_a_node()
        self._join()
        self._check_engines()

    def work(self, node: Program) -> None:
        """Orders speech and a cloned voice from the running node."""
        self._come_online(node)
        self._output.step("A task for the node", "POST /v1/tts, GET /v1/task")
        sample = self._order(node, SAMPLE_TEXT, VOICE, "order.mp3")
        self._clone(node, sample)
        self._output.step("A task in the cloned voice", "POST /v1/tts, GET /v1/task")
        self._order(node, CLONE_TEXT, self.voice_id, "cloned.mp3")
        self._show_account()

    def _order_without_a_node(self) -> None:
        self._output.step("No voice yet", "POST /v1/tts")
        order = {"text": SAMPLE_TEXT, "voice_id": VOICE}
        status, body = exchange("POST", f"{self._user.base_url}/tts", self._user.key, order)
        cost = self._user.ask("GET", "/me")["stats"]["cost"]
        self._output.rows(
            ("answer", f"{status} {json.loads(body)['error']['message']}"), ("charged", f"{cost} units")
        )

    def _join(self) -> None:
        self._output.step("A machine joins", "myna node enroll, and on the machine myna node join")
        token = self._user.type("node", "enroll", "garage")["token"]
        joined = self._user.type("node", "join", self._service.root_url, token, *self.data)
        self._output.rows(
            ("token", "works once, within an hour"),
            ("credential", f"{joined['credential']}, for its owner alone"),
        )

    def _check_engines(self) -> None:
        self._output.step("The engines of the node", "node.toml, myna node check")
        characters = SAMPLES[LANGUAGE] + SAMPLE_TEXT + CLONE_TEXT
        tiny_voices.zipvoice(self._folder / "tiny-model", characters=characters, effort=EFFORT)
        (self._folder / "node.toml").write_text(NODE_TOML, encoding="utf-8")
        for line in NODE_TOML.splitlines():
            self._output.say(line, "green")
        rows = [
            (row["engine"], str(len(row["voices"])), ", ".join(row["clones"]), f"{row['speed']} times")
            for row in self._user.type("node", "check", *self.config)
        ]
        self._output.rows(("engine", "voices", "clones", "as fast as one listens"), *rows)
        self._output.say(
            "The model was generated for this demo. It has a few kilobytes and only hums.", "dim"
        )

    def _come_online(self, node: Program) -> None:
        self._output.step("The node works", "myna node run")

        def look() -> Progress:
            voices = self._user.ask("GET", "/voices")["data"]
            return Progress("", bool(voices), {})

        _follow(node, look)
        (row,) = self._user.type("node", "list")
        self._output.rows(
            ("state", row["state"]),
            ("speaks", f"with {len(row['voices'])} voices, and with clones in {', '.join(row['clones'])}"),
            ("log", str(node.log)),
        )

    def _order(self, node: Program, text: str, voice_id: str, name: str) -> Path:
        """Orders the text, polls its task and downloads the audio. Returns the path of the audio."""
        ordered = self._user.ask("POST", "/tts", {"text": text, "voice_id": voice_id})

        def look() -> Progress:
            task = self._user.ask("GET", f"/task?id={ordered['id']}")["data"]
            return Progress(f"{task['status']} {task['status_text']}", task["status"] >= COMPLETED, task)

        states, task = _follow(node, look)
        if task["status"] != COMPLETED:
            raise DemoFailed(f"the task {ordered['id']} went {states}.")
        path = self._folder / name
        seconds = self._user.download(task["audio_url"], path)
        self._output.rows(
            ("text", text),
            ("answer", f"mode {ordered['mode']}, task {ordered['id']}, charged {ordered['cost']}"),
            ("status", states),
            ("listen to", f"{path} ({seconds:.1f} s)"),
        )
        return path

    def _clone(self, node: Program, sample: Path) -> None:
        """Clones the voice of the sample, which costs nothing."""
        self._output.step("That audio is the sample of a new voice", "myna voice clone, myna voice list")
        request = {"name": "Myna", "language": LANGUAGE, "sample": sample.name, "transcript": SAMPLE_TEXT}
        options = [word for name, value in request.items() for word in (f"--{name}", value)]
        queued = self._user.type("voice", "clone", ACCOUNT, *options, "--consent")
        self.voice_id = queued["voice_id"]

        def look() -> Progress:
            rows = self._service.command("voice", "list", "--account", ACCOUNT)
            (row,) = (row for row in rows if row["voice_id"] == self.voice_id)
            return Progress(row["status"], row["status"] in ("ready", "failed"), row)

        states, row = _follow(node, look, queued["status"])
        if row["status"] != "ready":
            raise DemoFailed(f"the voice went {states}: {row['reason']}")
        self._output.rows(("voice", self.voice_id), ("sample", f"{queued['sample_s']} s"), ("status", states))

    def _show_account(self) -> None:
        self._output.step("The charges", "myna account show, myna audit")
        account = self._user.type("account", "show", ACCOUNT)
        self._user.type("audit", "--audio")
        self._output.rows(
            ("balance", f"{account['balance']} units: each order took 1, the clone none"),
            ("audit", "no errors: every unit is accounted for and every file is unchanged"),
        )


def _follow(node: Program, look: Callable[[], Progress], *before: str) -> tuple[str, dict[str, Any]]:
    """Polls until the state is final. Returns the states in order and the last response."""
    states = list(before)
    until = time.monotonic() + WAIT_S
    while time.monotonic() < until:
        progress = look()
        if progress.state not in states[-1:]:
            states.append(progress.state)
        if progress.final:
            return " → ".join(states), progress.found
        node.check()
        time.sleep(LOOK_EVERY_S)
    raise DemoFailed(f"it didn't come to an end within {WAIT_S:g} s; it went {' → '.join(states)}.")


HOST = "127.0.0.1"
BEAT_S = "0.5"
"""Shorter than the default, so that the progress of a job is visible."""


def demo(output: Output) -> None:
    """The whole demo."""
    output.title("Myna: a compute node speaks for a service without a voice.")
    with tempfile.TemporaryDirectory(prefix="myna-demo-") as name:
        folder = Path(name)
        output.say(f"Both run on this machine. Data folder: {folder}, deleted at the end.")
        settings, env = _apart(folder)
        with Service(settings, env, folder) as service:
            output.step("A service without a voice", "MYNA_SPEECH=none myna serve")
            ready = f"{service.root_url} (ready in {service.wait_ready():.1f} s)"
            output.rows(("address", ready), ("log", str(service.log)))
            user = User(service, output)
            tour = NodeTour(user=user, service=service, folder=folder, output=output)
            tour.prepare()
            with _node(tour, folder, env) as node:
                tour.work(node)
                if not stops_after_tour():
                    _invite(user, tour.voice_id, output)
                    keep_running(output, service, node)
                output.step("Graceful shutdown", "SIGTERM")
                output.rows(*((program.name, f"exit code {program.stop()}") for program in (node, service)))


def _node(tour: NodeTour, folder: Path, env: dict[str, str]) -> Program:
    where = (*tour.data, *tour.config)
    return Program("the node", "node", "run", *where, log=folder / "node.log", env=env, folder=folder)


def _apart(folder: Path) -> tuple[Settings, dict[str, str]]:
    """The settings of a service on a free port in this folder, and their environment variables."""
    with socket.create_server((HOST, 0)) as free:
        port = free.getsockname()[1]
    settings = Settings(data=str(folder / "data"), host=HOST, port=port, speech="none")
    chosen = {"data": settings.data, "host": HOST, "port": str(port), "speech": "none", "beat_s": BEAT_S}
    env = {name: value for name, value in os.environ.items() if not name.startswith(PREFIX)}
    return settings, env | {PREFIX + name.upper(): value for name, value in chosen.items()}


def _invite(user: User, voice_id: str, output: Output) -> None:
    """Prints commands to try next."""
    output.title("\nYour turn. Service and node keep running; paste this into another terminal:")
    order = f'{{"text":"你好，世界","voice_id":"{voice_id}"}}'
    output.paste(
        f"export OPENAI_API_KEY={user.key}",
        f"curl {user.base_url}/tts -H \"Authorization: Bearer $OPENAI_API_KEY\" -d '{order}'",
    )
    output.rows(
        ("a machine of yours", "docs/nodes.md"),
        ("real models", "docs/models.md"),
        ("cloned voices", "docs/voices.md"),
        ("stop", "Ctrl-C"),
    )


if __name__ == "__main__":
    sys.exit(run_demo(demo))

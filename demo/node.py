"""`python -m demo.node`: a service without voices, and a compute node that speaks and clones for it.

It uses only this machine and a temporary folder. Exit codes: 0: all steps succeeded, or Ctrl-C after them;
1: a step failed; 130: Ctrl-C before the end.
"""

import os
import socket
import sys
import tempfile
from pathlib import Path

from demo.node_tour import NodeTour
from demo.output import Output
from demo.program import Program
from demo.runner import keep_running, run_demo, stops_after_tour
from demo.service import Service
from demo.user import User
from myna.settings import PREFIX, Settings

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

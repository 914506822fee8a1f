"""`python -m demo.node`: a compute node beside a service that has no voice, and a voice cloned by it.

All of it is on this machine and in a folder that goes with it. Exit 0: all went well, or Ctrl-C ended it;
1: something failed; 130: Ctrl-C in the middle.
"""

import os
import socket
import sys
import tempfile
from pathlib import Path

from demo.node_tour import NodeTour
from demo.paper import Paper
from demo.program import Program
from demo.service import Service
from demo.stage import ends_by_itself, go_on, perform
from demo.user import User
from myna.settings import PREFIX, Settings

HOST = "127.0.0.1"
BEAT_S = "0.5"
"""Far more often than usual, so that one sees how far a job is."""


def play(paper: Paper) -> None:
    """The whole demo."""
    paper.title("Myna: a compute node speaks for a service without a voice.")
    with tempfile.TemporaryDirectory(prefix="myna-demo-") as name:
        folder = Path(name)
        paper.say(f"Both run on this machine. Data folder: {folder}, deleted at the end.")
        settings, env = _apart(folder)
        with Service(settings, env, folder) as service:
            paper.step("A service without a voice", "MYNA_SPEECH=none myna serve")
            ready = f"{service.root_url} (ready in {service.wait_ready():.1f} s)"
            paper.rows(("address", ready), ("log", str(service.log)))
            user = User(service, paper)
            tour = NodeTour(user, service, folder, paper)
            tour.prepare()
            with _node(tour, folder, env) as node:
                tour.work(node)
                if not ends_by_itself():
                    _invite(user, tour.voice_id, paper)
                    go_on(paper, service, node)
                paper.step("Graceful shutdown", "SIGTERM")
                paper.rows(*((program.name, f"exit code {program.stop()}") for program in (node, service)))


def _node(tour: NodeTour, folder: Path, env: dict[str, str]) -> Program:
    where = (*tour.data, *tour.config)
    return Program("the node", "node", "run", *where, log=folder / "node.log", env=env, folder=folder)


def _apart(folder: Path) -> tuple[Settings, dict[str, str]]:
    """The settings of a service that nobody else uses, and the environment that says so and nothing else."""
    with socket.create_server((HOST, 0)) as free:
        port = free.getsockname()[1]
    settings = Settings(data=str(folder / "data"), host=HOST, port=port, speech="none")
    chosen = {"data": settings.data, "host": HOST, "port": str(port), "speech": "none", "beat_s": BEAT_S}
    env = {name: value for name, value in os.environ.items() if not name.startswith(PREFIX)}
    return settings, env | {PREFIX + name.upper(): value for name, value in chosen.items()}


def _invite(user: User, voice_id: str, paper: Paper) -> None:
    """What to do next."""
    paper.title("\nYour turn. Service and node keep running; paste this into another terminal:")
    order = f'{{"text":"你好，世界","voice_id":"{voice_id}"}}'
    paper.paste(
        f"export OPENAI_BASE_URL={user.base_url}",
        f"export OPENAI_API_KEY={user.key}",
        f"curl $OPENAI_BASE_URL/tts -H \"Authorization: Bearer $OPENAI_API_KEY\" -d '{order}'",
    )
    paper.rows(
        ("a machine of yours", "docs/nodes.md"),
        ("real models", "docs/models.md"),
        ("cloned voices", "docs/voices.md"),
        ("stop", "Ctrl-C"),
    )


if __name__ == "__main__":
    sys.exit(perform(play))

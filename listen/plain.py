"""The plain library, with which Myna is compared: its environment, `.dev/listen/plain`, and its run."""

import json
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from listen.speakers import Spoken, Voice

FOLDER = Path(__file__).parents[1] / ".dev" / "listen" / "plain"
PROGRAM = Path(__file__).with_name("plain_library.py")
PACKAGES = (
    "misaki[zh]==0.9.4",
    "phonemizer-fork==3.3.2",
    "espeakng-loader==0.2.4",
    "onnxruntime==1.32.0",
    "soundfile==0.14.0",
)
BELOW = (3, 13)
"""misaki excludes Python 3.13 and later."""
OTHERS = ("python3.12", "python3.11")
INSTALL_S = 900


class CannotCompare(Exception):
    """The plain library can't run here; the text is the reason that the table gives."""


class Order(NamedTuple):
    """A text to speak to a wav."""

    text: str
    voice: Voice
    path: Path


def speak(model: Path, vocabulary: dict[str, int], orders: Sequence[Order]) -> tuple[list[Spoken], int]:
    """Speaks all orders. Also returns the peak of its memory in bytes. Raises CannotCompare."""
    python = installed()
    asked = {
        "vocabulary": vocabulary,
        "orders": [
            {"text": order.text, "voice": order.voice.voice_id, "path": str(order.path)} for order in orders
        ],
    }
    done = subprocess.run(
        [python, str(PROGRAM), str(model)],
        input=json.dumps(asked),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise CannotCompare(f"it failed: {done.stderr.strip()[-400:]}")
    *rows, memory = map(json.loads, done.stdout.splitlines())
    found = [
        Spoken(order.path, row["took_s"], row["took_s"], row["cpu_s"], row["seconds"])
        for order, row in zip(orders, rows, strict=True)
    ]
    return found, memory["peak_bytes"]


def installed() -> str:
    """The interpreter of the environment, which is made at the first time. Raises CannotCompare."""
    python = FOLDER / "bin" / "python"
    stamp = FOLDER / "installed"
    if not (stamp.exists() and stamp.read_text(encoding="utf-8") == "\n".join(PACKAGES)):
        for command in (
            [_interpreter(), "-m", "venv", "--clear", str(FOLDER)],
            [str(python), "-m", "pip", "install", "--quiet", *PACKAGES],
        ):
            done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=INSTALL_S)
            if done.returncode:
                raise CannotCompare(f"it can't be installed: {done.stderr.strip()[-400:]}")
        stamp.write_text("\n".join(PACKAGES), encoding="utf-8")
    return str(python)


def _interpreter() -> str:
    if sys.version_info < BELOW:
        return sys.executable
    for name in OTHERS:
        found = shutil.which(name)
        # A version manager has a command for each version, which fails for one that isn't chosen.
        if found and not subprocess.run([found, "--version"], capture_output=True, check=False).returncode:
            return found
    raise CannotCompare(
        f"misaki, its text processing, excludes Python 3.13 and later; this is {sys.version.split()[0]}, and"
        f" there is no {' or '.join(OTHERS)}"
    )

"""Results as JSON, with what they were measured on."""

import os
import platform
import subprocess
import time
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from bench import processes

RESULTS = Path(__file__).parent / "results"


class Machine(msgspec.Struct, frozen=True):
    """Facts without which a figure says nothing. `time` in Unix seconds."""

    cores: int
    cpu: str
    memory_bytes: int
    kernel: str
    python: str
    filesystem: str
    commit: str
    time: int
    layout: dict[str, list[int]]


def machine(folder: Path) -> Machine:
    """This one; `folder` is where the databases are."""
    layout = {name: sorted(on) for name, on in processes.cores()._asdict().items()}
    return Machine(
        cores=os.cpu_count() or 1,
        cpu=_cpu(),
        memory_bytes=processes.machine_memory_bytes(),
        kernel=f"{platform.system()} {platform.release()}",
        python=f"{platform.python_version()} ({platform.python_compiler()})",
        filesystem=_said("stat", "-f", "-c", "%T", str(folder)),
        commit=_said("git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty"),
        time=int(time.time()),
        layout=layout,
    )


def write(name: str, found: msgspec.Struct, folder: Path = RESULTS) -> Path:
    """`NAME.json` in the folder of results."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.json"
    path.write_bytes(msgspec.json.format(msgspec.json.encode(found), indent=1) + b"\n")
    return path


def read(name: str, folder: Path = RESULTS) -> dict[str, Any]:
    """What `write` wrote; empty where nothing was measured yet."""
    path = folder / f"{name}.json"
    return msgspec.json.decode(path.read_bytes(), type=dict[str, Any]) if path.exists() else {}


def _cpu() -> str:
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor()


def _said(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout.strip() or "unknown"


class Table(NamedTuple):
    """Lines of a Markdown table."""

    head: list[str]
    rows: list[list[str]]

    def __str__(self) -> str:
        lines = [self.head, ["---"] * len(self.head), *self.rows]
        return "\n".join("| " + " | ".join(line) + " |" for line in lines)

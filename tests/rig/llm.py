"""A real language model server, llama.cpp's, with a tiny model that is generated for the test."""

import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.rig.tether import tethered

KEY = "llm-key-9d31"
SENTENCE = "the myna repeats every word it hears"
START_DEADLINE_S = 60
_URL_MARK = "listening at "


@dataclass(frozen=True)
class Llm:
    """The server's base address, the key it requires, and the content of its answers at temperature 0."""

    url: str
    key: str
    sentence: str


def _address(child: subprocess.Popen[str]) -> str:
    if child.stdout is None:
        raise RuntimeError("the child has no standard output")
    guard = threading.Timer(START_DEADLINE_S, child.kill)  # which ends its output, and so the loop
    guard.start()
    try:
        for line in child.stdout:
            if line.startswith(_URL_MARK):
                return line.removeprefix(_URL_MARK).strip()
    finally:
        guard.cancel()
    raise RuntimeError(f"the model server ended with {child.wait(10)}")


@pytest.fixture(scope="session")
def llm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Llm]:
    """The server, started when the first test asks for it."""
    folder = tmp_path_factory.mktemp("llm")
    arguments = [str(folder / "model.gguf"), KEY, SENTENCE]
    with (folder / "stderr").open("wb") as err:
        child = subprocess.Popen(
            tethered([sys.executable, "-m", "tests.rig.llm_server", *arguments]),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=err,
            text=True,
            cwd=Path(__file__).parents[2],
        )
    with child:
        # The model's tokens begin with the space before their word, and so does the answer.
        yield Llm(f"{_address(child)}/v1", KEY, f" {SENTENCE}")
        child.kill()

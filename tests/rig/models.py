"""Real models: llama.cpp's server with a tiny model that is generated for the test, and Kokoro and Whisper,
fetched once and kept in the user's cache."""

import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from demo import kokoro_model as kokoro
from myna.cli.models import ProgressBar
from myna.engines.models import install
from myna.engines.models.published import WHISPER
from myna.errors import CommandError
from tests.rig.processes import tethered

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


@pytest.fixture(scope="session")
def kokoro_model() -> Path:
    """The folder of the model. The test fails with the reason if it can't be fetched."""
    try:
        return kokoro.ensured(ProgressBar(quiet=True))
    except CommandError as error:
        pytest.fail(f"The model Kokoro is needed: {error}")


@pytest.fixture(scope="session")
def whisper_model() -> Path:
    """The folder of the model. The test fails with the reason if it can't be fetched."""
    try:
        return install.get(
            WHISPER, kokoro.cached().with_name("whisper-base"), "", ProgressBar(quiet=True)
        ).folder
    except CommandError as error:
        pytest.fail(f"The model Whisper is needed: {error}")

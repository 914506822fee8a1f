"""The real models Kokoro and Whisper: fetched once and kept in the user's cache."""

from pathlib import Path

import pytest

from demo import kokoro_model as kokoro
from myna.cli.models import ProgressBar
from myna.engines.models import install
from myna.engines.models.published import WHISPER
from myna.errors import CommandError


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

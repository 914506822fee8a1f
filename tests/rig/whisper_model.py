"""The real model Whisper, for tests that transcribe: fetched once and kept in the user's cache."""

from pathlib import Path

import pytest

from demo import kokoro_model
from myna.cli.progress import ProgressBar
from myna.errors import CommandError
from myna.models import install
from myna.models.whisper import WHISPER


@pytest.fixture(scope="session")
def whisper_model() -> Path:
    """The folder of the model. The test fails with the reason if it can't be fetched."""
    folder = kokoro_model.cached().with_name("whisper-base")
    try:
        return install.get(WHISPER, folder, "", ProgressBar(quiet=True)).folder
    except CommandError as error:
        pytest.fail(f"The model Whisper is needed: {error}")

"""The real model Kokoro, for tests that speak with it: fetched once and kept in the user's cache."""

from pathlib import Path

import pytest

from demo.kokoro_model import ensured
from myna.cli.progress import ProgressBar
from myna.errors import CommandError


@pytest.fixture(scope="session")
def kokoro_model() -> Path:
    """The folder of the model. The test fails with the reason if it can't be fetched."""
    try:
        return ensured(ProgressBar(quiet=True))
    except CommandError as error:
        pytest.fail(f"The model Kokoro is needed: {error}")

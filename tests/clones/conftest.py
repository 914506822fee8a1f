"""The parts that clone voices."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.clones.clone_setup import CloneSetup
from tests.rig.samples import write_voice
from tests.store.books import Books


@pytest.fixture
async def clone_setup(books: Books, recording: Path) -> AsyncIterator[CloneSetup]:
    opened = CloneSetup(books, recording)
    yield opened
    await opened.close()


@pytest.fixture(scope="session")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A good sample, slightly longer than three seconds."""
    return write_voice(tmp_path_factory.mktemp("recording") / "voice.wav", 3.5)

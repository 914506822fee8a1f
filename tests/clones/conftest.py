"""Fresh books on each of the two databases, and a workshop on them that clones voices."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.clones.workshop import Workshop
from tests.rig.samples import write_voice
from tests.store.books import Books, books_of


@pytest.fixture(params=["sqlite", "postgresql"])
def database_url(request: pytest.FixtureRequest) -> str:
    """Empty for SQLite."""
    if request.param == "sqlite":
        return ""
    return str(request.getfixturevalue("postgres_url"))


@pytest.fixture
async def books(database_url: str, tmp_path: Path) -> AsyncIterator[Books]:
    async with books_of(database_url, tmp_path) as opened:
        yield opened


@pytest.fixture
async def workshop(books: Books, recording: Path) -> AsyncIterator[Workshop]:
    opened = Workshop(books, recording)
    yield opened
    await opened.close()


@pytest.fixture(scope="session")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A good sample of three seconds and a bit."""
    return write_voice(tmp_path_factory.mktemp("recording") / "voice.wav", 3.5)

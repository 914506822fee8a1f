"""Only the user who runs the service may read SQLite's files."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from myna.store.migrate import migrate
from myna.store.sqlite import Sqlite

pytestmark = pytest.mark.anyio


@pytest.fixture(params=[0o000, 0o022, 0o077], ids=oct)
def umask(request: pytest.FixtureRequest) -> Iterator[int]:
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


async def make(file: Path) -> None:
    db = await Sqlite.open(file, serving=True)
    await migrate(db)
    written = [file, *(file.with_name(file.name + end) for end in ("-wal", "-shm"))]
    assert all(path.exists() for path in written)
    modes = {mode(path) for path in written}
    await db.close()
    assert modes == {mode(file)}


async def test_a_new_database_is_private_whatever_the_umask(tmp_path: Path, umask: int) -> None:
    file = tmp_path / "above" / "data" / "myna.sqlite"
    await make(file)
    assert (mode(file.parent), mode(file)) == (0o700, 0o600)


async def test_an_existing_database_keeps_its_permissions(tmp_path: Path) -> None:
    file = tmp_path / "data" / "myna.sqlite"
    await make(file)
    file.parent.chmod(0o750)
    file.chmod(0o640)
    await make(file)
    assert (mode(file.parent), mode(file)) == (0o750, 0o640)

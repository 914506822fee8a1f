"""Leftovers of interrupted jobs in the audio store are removed. Complete and growing files are kept."""

import os
import time
from pathlib import Path

import pytest

from myna.maintenance import LEFTOVER_AGE_S, remove_parts
from myna.service import Service
from tests.rig.service import ServiceMaker
from tests.rig.waiting import wait_until
from tests.store.books import Books

OLD_S = LEFTOVER_AGE_S + 60


def write(path: Path, age_s: float) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"x")
    then = time.time() - age_s
    os.utime(path, (then, then))
    return path


def there(path: Path) -> bool:
    return path.exists()


def test_only_old_part_files_are_removed(tmp_path: Path) -> None:
    old = [write(tmp_path / folder / f".{folder}.part", OLD_S) for folder in ("ab", "cd")]
    kept = [
        write(tmp_path / "ab" / ".fresh.part", 5),
        write(tmp_path / "ab" / ("a" * 32 + ".mp3"), OLD_S),
        write(tmp_path / "ab" / "visible.part", OLD_S),
        write(tmp_path / ".above.part", OLD_S),
    ]
    assert remove_parts(tmp_path, time.time() - LEFTOVER_AGE_S) == 2
    assert [path.exists() for path in old + kept] == [False] * 2 + [True] * 4


def test_a_missing_audio_store_has_no_leftovers(tmp_path: Path) -> None:
    assert remove_parts(tmp_path / "nowhere", time.time()) == 0


@pytest.mark.anyio
async def test_files_skipped_by_a_failed_run_are_removed_by_the_next(
    books: Books, service: Service, tmp_path: Path
) -> None:
    orphan = write(tmp_path / "audio" / "aa" / ("a" * 32 + ".mp3"), OLD_S)
    await books.sql("ALTER TABLE clones RENAME TO elsewhere")
    with pytest.raises(Exception, match="clones"):
        await service.jobs.remove_leftovers()
    await books.sql("ALTER TABLE elsewhere RENAME TO clones")
    await service.jobs.remove_leftovers()
    assert not there(orphan)


def test_a_server_removes_part_files_of_its_predecessor_at_startup(make_service: ServiceMaker) -> None:
    service = make_service(chat_url="parrot:", speech="none")
    left = write(service.folder / "data" / "audio" / "ab" / ".0123456789abcdef.part", OLD_S)
    fresh = write(left.with_name(".fedcba9876543210.part"), 5)
    service.start()
    wait_until(lambda: not left.exists(), 60, "the leftover is removed")
    assert fresh.exists()
    assert service.stop() == 0

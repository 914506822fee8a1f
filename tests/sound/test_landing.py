"""A file is at its path whole, or nothing is."""

import hashlib
import os
import threading
from pathlib import Path

import pytest

from myna.sound.landing import Landing
from tests.rig.disks import StillDisk, read_only
from tests.rig.waiting import wait_until


def _begun(path: Path) -> Landing:
    landing = Landing(path)
    landing.begin()
    return landing


def test_a_file_appears_when_it_is_committed_and_not_before(tmp_path: Path) -> None:
    path = tmp_path / "a.mp3"
    landing = _begun(path)
    for piece in (b"one", b"", b"two" * 100_000):
        landing.write(piece)
    assert not path.exists()

    size_bytes, sha256 = landing.commit()

    data = b"one" + b"two" * 100_000
    assert path.read_bytes() == data
    assert (size_bytes, sha256) == (len(data), hashlib.sha256(data).digest())
    assert list(tmp_path.iterdir()) == [path]


def test_what_was_written_can_be_read_before_it_is_committed(tmp_path: Path) -> None:
    landing = _begun(tmp_path / "a.mp3")
    landing.write(b"one")
    landing.flush()

    assert landing.part.read_bytes() == b"one"
    assert landing.size_bytes == 3
    landing.abort()


def test_an_aborted_file_leaves_nothing_however_often_it_is_aborted(tmp_path: Path) -> None:
    landing = _begun(tmp_path / "a.mp3")
    landing.write(b"one")

    landing.abort()
    landing.abort()

    assert list(tmp_path.iterdir()) == []


def test_aborting_after_the_commit_keeps_the_file(tmp_path: Path) -> None:
    landing = _begun(tmp_path / "a.mp3")
    landing.write(b"one")
    landing.commit()

    landing.abort()

    assert (tmp_path / "a.mp3").read_bytes() == b"one"


@pytest.mark.parametrize("removable", [True, False])
def test_what_is_aborted_while_its_commit_waits_for_the_disk_never_gets_to_its_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, removable: bool
) -> None:
    disk, ends = StillDisk(), list[BaseException]()

    def commit() -> None:
        try:
            landing.commit()
        except OSError as error:
            ends.append(error)

    monkeypatch.setattr("myna.sound.landing.os.fsync", disk.take)
    landing = _begun(tmp_path / "a.mp3")
    landing.write(b"one")
    committing = threading.Thread(target=commit)
    committing.start()
    wait_until(lambda: bool(disk.asked), 20, "the commit waits for the disk")

    if not removable:
        monkeypatch.setattr("pathlib.Path.unlink", read_only)
    landing.abort()

    assert list(tmp_path.iterdir()) == ([] if removable else [landing.part])
    disk.goes_on()
    committing.join(20)
    assert [type(end) for end in ends] == [FileNotFoundError]
    assert not (tmp_path / "a.mp3").exists()


def test_a_full_disk_stops_no_abort(tmp_path: Path) -> None:
    landing = _begun(tmp_path / "a.mp3")
    with Path("/dev/full").open("wb") as full:
        landing._file.write(b"one")
        os.dup2(full.fileno(), landing._file.fileno())
    with pytest.raises(OSError, match="No space left"):
        landing.commit()

    landing.abort()

    assert list(tmp_path.iterdir()) == []


def test_a_disk_that_lets_nothing_be_removed_stops_no_abort(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    landing = _begun(tmp_path / "a.mp3")
    monkeypatch.setattr("pathlib.Path.unlink", read_only)

    landing.abort()

    assert [record.getMessage() for record in caplog.records] == [
        "a file of a job that was broken off stays: Read-only file system"
    ]


def test_two_files_for_one_path_do_not_meet(tmp_path: Path) -> None:
    one, two = _begun(tmp_path / "a.mp3"), _begun(tmp_path / "a.mp3")
    one.write(b"one")
    two.write(b"two")
    one.abort()
    two.commit()

    assert (tmp_path / "a.mp3").read_bytes() == b"two"


def test_a_folder_that_is_not_there_is_made_and_one_that_cannot_be_is_an_error(tmp_path: Path) -> None:
    landing = _begun(tmp_path / "missing" / "too" / "a.mp3")
    landing.write(b"one")
    landing.commit()
    assert (tmp_path / "missing" / "too" / "a.mp3").read_bytes() == b"one"
    with pytest.raises(FileExistsError):
        Landing(tmp_path / "missing" / "too" / "a.mp3" / "b.mp3").begin()


def test_what_is_undone_leaves_nothing_wherever_it_was(tmp_path: Path) -> None:
    for ends in (Landing.undo, Landing.commit):
        landing = _begun(tmp_path / "a.mp3")
        landing.write(b"one")
        ends(landing)
        landing.undo()
        assert list(tmp_path.iterdir()) == []


def test_what_is_aborted_before_it_is_begun_never_begins(tmp_path: Path) -> None:
    landing = Landing(tmp_path / "a.mp3")
    landing.undo()
    with pytest.raises(FileNotFoundError):
        landing.begin()
    assert list(tmp_path.iterdir()) == []


def test_an_abort_beside_a_name_that_is_just_made_comes_behind_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk, really = StillDisk(), Path.replace
    monkeypatch.setattr("pathlib.Path.replace", lambda path, target: really(disk.take(path), target))
    landing = _begun(tmp_path / "a.mp3")
    landing.write(b"one")
    committing = threading.Thread(target=landing.commit)
    committing.start()
    wait_until(lambda: bool(disk.asked), 20, "the file is being moved")
    undoing = threading.Thread(target=landing.undo)
    undoing.start()
    undoing.join(0.2)
    assert undoing.is_alive()
    disk.goes_on()
    for thread in (committing, undoing):
        thread.join(20)
    assert list(tmp_path.iterdir()) == []

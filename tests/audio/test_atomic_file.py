"""An atomic file appears whole or not at all."""

import hashlib
import os
import threading
from pathlib import Path

import pytest

from myna.files.atomic_file import AtomicFile
from tests.rig.disks import StalledDisk, read_only
from tests.rig.waiting import wait_until


def _open(path: Path) -> AtomicFile:
    file = AtomicFile(path)
    file.begin()
    return file


def test_a_file_appears_when_it_is_committed_and_not_before(tmp_path: Path) -> None:
    path = tmp_path / "a.mp3"
    file = _open(path)
    for piece in (b"one", b"", b"two" * 100_000):
        file.write(piece)
    assert not path.exists()

    size_bytes, sha256 = file.commit()

    data = b"one" + b"two" * 100_000
    assert path.read_bytes() == data
    assert (size_bytes, sha256) == (len(data), hashlib.sha256(data).digest())
    assert list(tmp_path.iterdir()) == [path]


def test_what_was_written_can_be_read_before_it_is_committed(tmp_path: Path) -> None:
    file = _open(tmp_path / "a.mp3")
    file.write(b"one")
    file.flush()

    assert file.part.read_bytes() == b"one"
    assert file.size_bytes == 3
    file.abort()


def test_abort_removes_the_part_and_is_idempotent(tmp_path: Path) -> None:
    file = _open(tmp_path / "a.mp3")
    file.write(b"one")

    file.abort()
    file.abort()

    assert list(tmp_path.iterdir()) == []


def test_aborting_after_the_commit_keeps_the_file(tmp_path: Path) -> None:
    file = _open(tmp_path / "a.mp3")
    file.write(b"one")
    file.commit()

    file.abort()

    assert (tmp_path / "a.mp3").read_bytes() == b"one"


@pytest.mark.parametrize("removable", [True, False])
def test_a_file_aborted_during_its_commit_never_appears(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, removable: bool
) -> None:
    disk, ends = StalledDisk(), list[BaseException]()

    def commit() -> None:
        try:
            file.commit()
        except OSError as error:
            ends.append(error)

    monkeypatch.setattr("myna.files.atomic_file.os.fsync", disk.block)
    file = _open(tmp_path / "a.mp3")
    file.write(b"one")
    committing = threading.Thread(target=commit)
    committing.start()
    wait_until(lambda: bool(disk.calls), 60, "the commit waits for the disk")

    if not removable:
        monkeypatch.setattr("pathlib.Path.unlink", read_only)
    file.abort()

    assert list(tmp_path.iterdir()) == ([] if removable else [file.part])
    disk.resume()
    committing.join(20)
    assert [type(end) for end in ends] == [FileNotFoundError]
    assert not (tmp_path / "a.mp3").exists()


def test_abort_works_on_a_full_disk(tmp_path: Path) -> None:
    file = _open(tmp_path / "a.mp3")
    with Path("/dev/full").open("wb") as full:
        file._file.write(b"one")
        os.dup2(full.fileno(), file._file.fileno())
    with pytest.raises(OSError, match="No space left"):
        file.commit()

    file.abort()

    assert list(tmp_path.iterdir()) == []


def test_abort_on_a_read_only_disk_logs_and_does_not_raise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    file = _open(tmp_path / "a.mp3")
    monkeypatch.setattr("pathlib.Path.unlink", read_only)

    file.abort()

    assert [record.getMessage() for record in caplog.records] == [
        "a file of a failed job was not removed: Read-only file system"
    ]


def test_two_files_for_one_path_have_different_parts(tmp_path: Path) -> None:
    one, two = _open(tmp_path / "a.mp3"), _open(tmp_path / "a.mp3")
    one.write(b"one")
    two.write(b"two")
    one.abort()
    two.commit()

    assert (tmp_path / "a.mp3").read_bytes() == b"two"


def test_a_missing_folder_is_created_or_an_error_is_raised(tmp_path: Path) -> None:
    file = _open(tmp_path / "missing" / "too" / "a.mp3")
    file.write(b"one")
    file.commit()
    assert (tmp_path / "missing" / "too" / "a.mp3").read_bytes() == b"one"
    with pytest.raises(FileExistsError):
        AtomicFile(tmp_path / "missing" / "too" / "a.mp3" / "b.mp3").begin()


def test_undo_removes_the_file_before_and_after_the_commit(tmp_path: Path) -> None:
    for ends in (AtomicFile.undo, AtomicFile.commit):
        file = _open(tmp_path / "a.mp3")
        file.write(b"one")
        ends(file)
        file.undo()
        assert list(tmp_path.iterdir()) == []


def test_a_file_aborted_before_begin_is_not_opened(tmp_path: Path) -> None:
    file = AtomicFile(tmp_path / "a.mp3")
    file.undo()
    with pytest.raises(FileNotFoundError):
        file.begin()
    assert list(tmp_path.iterdir()) == []


def test_undo_waits_for_a_rename_in_progress(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk, really = StalledDisk(), Path.replace
    monkeypatch.setattr("pathlib.Path.replace", lambda path, target: really(disk.block(path), target))
    file = _open(tmp_path / "a.mp3")
    file.write(b"one")
    committing = threading.Thread(target=file.commit)
    committing.start()
    wait_until(lambda: bool(disk.calls), 60, "the file is being moved")
    undoing = threading.Thread(target=file.undo)
    undoing.start()
    undoing.join(0.2)
    assert undoing.is_alive()
    disk.resume()
    for thread in (committing, undoing):
        thread.join(20)
    assert list(tmp_path.iterdir()) == []

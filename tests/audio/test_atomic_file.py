"""An atomic file appears whole or not at all."""

import hashlib
import threading
from pathlib import Path

import pytest

from myna.lib.files import AtomicFile
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


def test_abort_removes_the_part_and_is_idempotent(tmp_path: Path) -> None:
    file = _open(tmp_path / "a.mp3")
    file.write(b"one")

    file.abort()
    file.abort()

    assert list(tmp_path.iterdir()) == []


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

    monkeypatch.setattr("myna.lib.files.os.fsync", disk.block)
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

"""Audio in a bucket of a real S3 server, behind a proxy that makes faults."""

import itertools
import os
import secrets
from pathlib import Path

import pytest

from myna.errors import StorageUnavailable
from myna.settings import Settings
from myna.store.files.named_files import AudioStore
from myna.store.files.storage import Folder, Storage, is_empty, open_storage
from tests.rig.s3 import BROKEN, BUCKET, S3, SECRET, SKEWED, Fault

SOUND = os.urandom(100_000)
LONG = os.urandom(12 * 2**20)
"""Is sent by parts."""
KEY = f"audio/ab/ab{'0' * 30}.mp3"


@pytest.fixture
def prefix() -> str:
    return secrets.token_hex(8)


@pytest.fixture
def bucket(s3: S3, prefix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Storage:
    for name, value in s3.env.items():
        monkeypatch.setenv(name, value)
    settings = Settings(data=str(tmp_path / "data"), storage=f"s3://{BUCKET}/{prefix}")
    return open_storage(settings, os.environ)


@pytest.mark.parametrize("kind", ["folder", "bucket"])
@pytest.mark.parametrize("data", [SOUND, LONG], ids=["short", "long"])
def test_a_storage_returns_what_was_stored(kind: str, data: bytes, tmp_path: Path, bucket: Storage) -> None:
    storage = bucket if kind == "bucket" else Folder(tmp_path)
    assert is_empty(storage) and storage.stat(KEY) is None
    with pytest.raises(FileNotFoundError):
        storage.fetch(KEY)
    made = storage.working / KEY
    made.parent.mkdir(parents=True)
    made.write_bytes(data)
    storage.keep(KEY)
    stored = storage.stat(KEY)
    assert stored is not None and stored.size_bytes == len(data)
    assert list(storage.walk("audio")) == [(KEY, stored)] and not list(storage.walk("samples"))
    assert storage.read(KEY, 0, len(data)) == data and storage.read(KEY, 10, 20) == data[10:30]
    assert storage.fetch(KEY).read_bytes() == data
    assert made.exists() == (kind == "folder")
    for _ in range(2):
        storage.delete(KEY)
    assert storage.stat(KEY) is None


def each_third(fault: Fault, method: str, part: str = "") -> "object":
    """A fault in every third request of this method."""
    numbers = itertools.count(1)
    return lambda asked, path: fault if asked == method and part in path and next(numbers) % 3 == 1 else None


@pytest.mark.parametrize(
    ("fault", "method"),
    [(BROKEN, "PUT"), ("cut upload", "PUT"), ("cut download", "GET"), ("slow", "PUT")],
    ids=["500 on a part", "cut upload", "cut download", "slow"],
)
def test_a_passing_fault_is_not_seen(fault: Fault, method: str, s3: S3, bucket: Storage) -> None:
    s3.faults = each_third(fault, method)
    bucket.put(KEY, LONG)
    assert bucket.fetch(KEY).read_bytes() == LONG and bucket.read(KEY, 5, 50) == LONG[5:55]
    assert s3.proxy.made.total() >= 1


@pytest.mark.parametrize("fault", [SKEWED, BROKEN, "cut upload"], ids=["wrong clock", "500", "cut upload"])
def test_a_lasting_fault_is_unavailable_and_leaves_nothing(
    fault: Fault, s3: S3, bucket: Storage, prefix: str, caplog: pytest.LogCaptureFixture
) -> None:
    s3.faults = lambda method, path: fault if method == "PUT" else None
    for data in (SOUND, LONG):
        with pytest.raises(StorageUnavailable, match=r"^The storage of audio is unavailable; nothing was"):
            bucket.put(KEY, data)
    why = fault[1] if isinstance(fault, tuple) else "error sending request"
    assert caplog.messages == [f"can't write s3://{BUCKET}/{prefix}: {why}"] * 2
    assert SECRET not in caplog.text
    assert s3.keys(prefix) == [] and s3.unfinished() == 0


def test_a_bucket_that_is_missing_is_unavailable(s3: S3, bucket: Storage) -> None:
    """As one with a misspelt name: no file is missing that is written or listed."""
    s3.faults = lambda method, path: (404, "NoSuchBucket")
    for asked in (lambda: bucket.put(KEY, SOUND), lambda: is_empty(bucket)):
        with pytest.raises(StorageUnavailable):
            asked()


def test_a_copy_that_a_killed_process_left_is_removed(bucket: Storage) -> None:
    bucket.put(KEY, SOUND)
    left = bucket.fetch(KEY)
    audio = AudioStore(bucket)
    assert audio.remove_unfinished(left.stat().st_mtime) == 0
    assert audio.remove_unfinished(left.stat().st_mtime + 1) == 1
    assert not left.exists() and bucket.stat(KEY)

"""Audio in a bucket of a real S3 server, behind a proxy that makes faults: the storage itself, a service, and
two services that share it."""

import hashlib
import itertools
import json
import os
import random
import secrets
import sqlite3
import subprocess
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from myna.errors import StorageUnavailable
from myna.settings import Settings
from myna.store.files.named_files import AudioStore
from myna.store.files.storage import Folder, Storage, is_empty, open_storage
from tests.conformance.caller import REFUNDED, Caller, make_caller
from tests.rig.calls import call
from tests.rig.s3 import BROKEN, BUCKET, OPEN_BUCKET, S3, SECRET, SKEWED, Fault
from tests.rig.service import Service, ServiceMaker

JOBS = 200
OTHER_UID = 4711
FAULTS: list[Fault | None] = [BROKEN, "cut upload", "cut download", "slow", SKEWED]
SHARE = 0.25
"""Of the requests, that have a fault. A wrong clock fails at once, the others are tried again."""


@pytest.fixture
def prefix() -> str:
    return secrets.token_hex(8)


@pytest.fixture
def service(make_service: ServiceMaker, s3: S3, prefix: str, tmp_path: Path) -> Service:
    secret = tmp_path / "secret"
    secret.write_text(f"{SECRET}\n")
    env = {name: value for name, value in s3.env.items() if name != "AWS_SECRET_ACCESS_KEY"}
    env |= {"AWS_SECRET_ACCESS_KEY_FILE": str(secret), "MYNA_STORAGE": f"s3://{BUCKET}/{prefix}"}
    return make_service(speech="espeak", env=env).start()


def spoken(caller: Caller, text: str = "hello") -> str:
    answer = caller.post("/tts", {"text": text})
    assert answer.status == 200, answer.body
    return str(answer.json["audio_url"]).rpartition("/")[2]


def stored(s3: S3, prefix: str) -> list[str]:
    """The names of the files in the bucket."""
    return [key.rpartition("/")[2] for key in s3.keys(prefix) if key != "audio/myna-site"]


def run(service: Service, *arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    """A command in a process of its own: the library of buckets has threads, which no fork has."""
    return subprocess.run(
        [sys.executable, "-m", "myna", *arguments],
        env={**service.env, **env},
        cwd=service.folder,
        capture_output=True,
        text=True,
        check=False,
    )


def files(service: Service) -> list[Path]:
    return [path for path in (service.folder / "data").rglob("*") if path.suffix in (".mp3", ".wav", ".part")]


def test_audio_is_in_the_bucket_and_its_failures_cost_nothing(service: Service, s3: S3, prefix: str) -> None:
    caller = make_caller(service, units=100)
    made = (service.folder / "data" / "unsent").iterdir()
    assert {path.name for path in made} == {"audio", "samples"}  # before a command of root makes one
    name = spoken(caller)
    address = f"{service.root_url}/uploads/{name}"
    whole = call("GET", address)
    assert whole.status == 200 and whole.body[:1] == b"\xff" and stored(s3, prefix) == [name]
    part = call("GET", address, headers={"Range": "bytes=10-19"})
    assert part.status == 206 and part.body == whole.body[10:20] and files(service) == []

    before = caller.stats()
    s3.faults = lambda method, path: SKEWED if method == "PUT" else None
    refused = caller.post("/tts", {"text": "hello"})
    assert refused.status == 503 and caller.stats() - before == REFUNDED
    s3.faults = lambda method, path: BROKEN
    unread = call("GET", address)
    assert unread.status == 503 and "retry-after" in unread.headers
    s3.faults = None
    assert call("GET", address).body == whole.body and stored(s3, prefix) == [name]
    assert "RequestTimeTooSkewed" in service.stderr and SECRET not in service.stderr

    run(service, "record", "delete", caller.account.name, str(caller.get("/records").json["data"][-1]["id"]))
    assert stored(s3, prefix) == [] and call("GET", address).status == 404
    assert run(service, "audit", "--audio").returncode == 0


def test_uploads_redirect_to_a_signed_address(service: Service) -> None:
    name = spoken(make_caller(service, units=100))
    service.env["MYNA_UPLOADS_REDIRECT_S"] = "60"
    service.restart()
    address = f"{service.root_url}/uploads/{name}"
    moved = call("GET", address)
    assert moved.status == 302 and moved.headers["cache-control"] == "no-store"
    assert SECRET not in moved.headers["location"]
    there = call("GET", moved.headers["location"], headers={"Range": "bytes=0-9"})
    assert there.status == 206 and len(there.body) == 10
    assert call("GET", address, headers={"Sec-Fetch-Site": "same-origin"}).status == 200
    assert call("HEAD", address).status == 200  # the address is signed for GET
    assert call("GET", f"{service.root_url}/uploads/{'0' * 32}.mp3").status == 404


def test_a_storage_of_another_installation_is_refused_and_a_moved_one_is_followed(
    service: Service, make_service: ServiceMaker, s3: S3, prefix: str
) -> None:
    name = spoken(make_caller(service, units=100))
    sound = call("GET", f"{service.root_url}/uploads/{name}").body
    assert run(service, "backup", "site.tar").returncode == 0
    assert service.stop() == 0
    for other in ("folder", f"s3://{BUCKET}/{prefix}/other"):
        refused = run(service, "serve", MYNA_STORAGE=other)
        assert refused.returncode == 1 and "is not that of this database" in refused.stderr.splitlines()[-1]
    stranger = make_service(speech="none", env={**service.env, "MYNA_DATA": str(service.folder / "new")})
    refused = run(stranger, "serve")
    assert refused.returncode == 1 and "belongs to another installation" in refused.stderr.splitlines()[-1]

    database = service.folder / "data" / "myna.sqlite"
    if os.geteuid() == 0:  # whose command may not leave files that the service can't read
        os.chown(database, OTHER_UID, OTHER_UID)
    moved = json.loads(run(service, "move", "--storage", "folder", "--json").stdout)
    assert moved["files"] == 1 and moved["bytes"] == len(sound)
    owners = {path.stat().st_uid for path in (service.folder / "data").rglob("*")}
    assert owners == {database.stat().st_uid}
    assert "or was moved" in run(service, "audit").stderr
    service.env["MYNA_STORAGE"] = "folder"
    service.start()
    assert call("GET", f"{service.root_url}/uploads/{name}").body == sound
    assert service.stop() == 0
    restored = {"MYNA_DATA": str(service.folder / "restored"), "MYNA_STORAGE": f"s3://{BUCKET}/{prefix}-2"}
    ended = run(service, "restore", "site.tar", "--json", **restored)
    assert ended.returncode == 0, ended.stderr
    assert stored(s3, f"{prefix}-2") == [name]
    assert run(service, "restore", "site.tar", **{**restored, "MYNA_DATA": "again"}).returncode == 1


def test_an_upgraded_site_begins_no_empty_bucket(make_service: ServiceMaker, s3: S3, prefix: str) -> None:
    """Its audio is in the folder, from which it can be moved."""
    service = make_service(speech="espeak", env=s3.env).start()
    spoken(make_caller(service, units=100))
    assert service.stop() == 0
    (service.folder / "data" / "audio" / "myna-site").unlink()
    with sqlite3.connect(service.folder / "data" / "myna.sqlite") as db:
        db.execute("UPDATE site SET storage_marked = 0")
    bucket = f"s3://{BUCKET}/{prefix}"
    refused = run(service, "serve", MYNA_STORAGE=bucket)
    assert refused.returncode == 1 and "myna move --storage" in refused.stderr.splitlines()[-1]
    assert run(service, "move", "--storage", bucket).returncode == 0
    assert len(stored(s3, prefix)) == 1


def test_two_replicas_lose_no_sound_while_the_bucket_makes_faults(
    make_service: ServiceMaker, s3: S3, prefix: str, postgres_url: str
) -> None:
    env = {**s3.env, "MYNA_STORAGE": f"s3://{BUCKET}/{prefix}"}
    replicas = [make_service(speech="espeak", database_url=postgres_url, env=env) for _ in "12"]
    caller = make_caller(replicas[0].start(), units=10_000)
    replicas[1].start()
    chance = random.Random(7)
    s3.faults = lambda method, path: chance.choice(FAULTS) if chance.random() < SHARE else None
    statuses: Counter[int] = Counter()
    unread: Counter[int] = Counter()

    def job(number: int) -> tuple[str, bytes]:
        """Speaks on one replica and hears it from the other, each again until it is not refused."""
        here, there = replicas[number % 2], replicas[1 - number % 2]
        while True:
            data = {"text": f"job number {number}"}
            answer = call("POST", f"{here.base_url}/tts", key=caller.key.plain, data=data)
            statuses[answer.status] += 1
            if answer.status == 200:
                break
        name = answer.json["audio_url"].rpartition("/")[2]
        while (heard := call("GET", f"{there.root_url}/uploads/{name}")).status != 200:
            unread[heard.status] += 1
        return name, hashlib.sha256(heard.body).digest()

    with ThreadPoolExecutor(12) as pool:
        heard = dict(pool.map(job, range(JOBS)))
    s3.faults = None
    assert len(heard) == JOBS and set(statuses) == {200, 503} and set(unread) <= {503}
    assert s3.proxy.made.keys() >= {"InternalError", "RequestTimeTooSkewed", "cut upload", "cut download"}
    kept = {
        row["audio"]: 1
        for row in replicas[0].cli("record", "list", caller.account.name, "--limit", "1000")
        if row["audio"]
    }
    assert kept.keys() == heard.keys() <= set(stored(s3, prefix))
    spent = caller.stats()
    assert spent.ok_calls == spent.cost == JOBS and spent.calls == statuses.total()
    for replica in replicas:
        assert run(replica, "audit", "--audio").returncode == 0
        assert files(replica) == []


SOUND = os.urandom(100_000)
LONG = os.urandom(12 * 2**20)
"""Is sent by parts."""
KEY = f"audio/ab/ab{'0' * 30}.mp3"


@pytest.fixture
def bucket(s3: S3, prefix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Storage:
    for name, value in s3.env.items():
        monkeypatch.setenv(name, value)
    settings = Settings(data=str(tmp_path / "data"), storage=f"s3://{BUCKET}/{prefix}")
    return open_storage(settings, os.environ)


@pytest.fixture
def google(s3: S3, prefix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Storage:
    """By the protocol of Google Cloud Storage, with a service account's key that names the server."""
    key = rsa.generate_private_key(65537, 2048).private_bytes(
        Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()
    )
    account = {
        "gcs_base_url": f"http://127.0.0.1:{s3.proxy.server_port}",
        "client_email": "myna@example.iam.gserviceaccount.com",
        "private_key": key.decode(),
        "private_key_id": "1",
    }
    monkeypatch.setenv("GOOGLE_ALLOW_HTTP", "true")
    monkeypatch.setenv("GOOGLE_SERVICE_ACCOUNT_KEY", json.dumps(account))
    settings = Settings(data=str(tmp_path / "data"), storage=f"gs://{OPEN_BUCKET}/{prefix}")
    return open_storage(settings, os.environ)


@pytest.fixture
def folder(tmp_path: Path) -> Storage:
    return Folder(tmp_path)


@pytest.mark.parametrize("kind", ["folder", "bucket", "google"])
@pytest.mark.parametrize("data", [SOUND, LONG], ids=["short", "long"])
def test_a_storage_returns_what_was_stored(kind: str, data: bytes, request: pytest.FixtureRequest) -> None:
    storage: Storage = request.getfixturevalue(kind)
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

"""A release over HTTPS, also one that is cut short, wrong, missing or slow."""

import errno
import http.client
import os
from pathlib import Path

import pytest

from myna.errors import CommandError
from myna.models import fetch, install
from myna.models.catalog import Model
from myna.models.interface import SourceFailed
from tests.models.conftest import Recorded, left_beside
from tests.models.file_server import Fault, FileServer
from tests.models.stand_in import INSTALLED, MODEL, VOICES, at, contents, npz

MODEL_PATH, VOICES_PATH = "/files/model-v1.onnx", "/files/voices-v1.bin"


def get(model: Model, target: Path, report: Recorded, source: str = install.RELEASE) -> install.Got:
    return install.get(model, target, source, report)


def refused(model: Model, target: Path, report: Recorded) -> str:
    """The error of a release that must fail: one line, and no model."""
    with pytest.raises(SourceFailed) as failure:
        get(model, target, report)
    assert not target.exists()
    assert "\n" not in str(failure.value)
    return str(failure.value)


def test_a_release_is_fetched_checked_and_put_in_place(
    server: FileServer, model: Model, target: Path, report: Recorded
) -> None:
    got = get(model, target, report)

    assert (got.folder, got.source) == (target, "release")
    assert contents(target) == INSTALLED
    assert left_beside(target) == []
    assert report.steps == ["model-v1.onnx", "voices-v1.bin", "copying tiny"]
    assert report.done_bytes == [len(MODEL), len(npz()), model.size_bytes]


def test_a_complete_model_is_not_fetched_again(
    server: FileServer, model: Model, target: Path, report: Recorded
) -> None:
    get(model, target, report)
    server.requests.clear()
    assert get(model, target, report, "").source == "already there"
    assert server.requests == []


def test_a_damaged_file_of_the_same_size_is_noticed_and_replaced(
    model: Model, target: Path, report: Recorded
) -> None:
    get(model, target, report)
    (target / "model.onnx").write_bytes(bytes(len(MODEL)))
    assert get(model, target, report).source == "release"
    assert contents(target) == INSTALLED
    assert left_beside(target) == []


@pytest.mark.parametrize("cut", [0, 1, 700_000, len(MODEL) - 1])
def test_an_answer_that_is_cut_short_is_continued(
    server: FileServer, model: Model, target: Path, report: Recorded, cut: int
) -> None:
    server.faults[MODEL_PATH] = [Fault(cut=cut)]
    get(model, target, report)
    assert contents(target) == INSTALLED
    assert server.ranges(MODEL_PATH) == ["", f"bytes={cut}-" if cut else ""]
    assert report.done_bytes[0] == len(MODEL)


def test_a_server_that_always_ends_early_is_given_up_and_its_bytes_are_kept(
    server: FileServer, model: Model, target: Path, report: Recorded
) -> None:
    server.faults[MODEL_PATH] = [Fault(cut=500_000), *[Fault(cut=0)] * fetch.TRIES]
    assert "the connection ended after 500000 of 1500001 bytes" in refused(model, target, report)
    assert left_beside(target) == [".tiny.fetching"]
    assert contents(target.with_name(".tiny.fetching")) == {"download/model-v1.onnx.part": MODEL[:500_000]}

    server.requests.clear()
    get(model, target, report)
    assert server.ranges(MODEL_PATH) == ["bytes=500000-"]
    assert contents(target) == INSTALLED
    assert left_beside(target) == []


def test_a_server_that_ignores_ranges_sends_the_file_again(
    server: FileServer, model: Model, target: Path, report: Recorded
) -> None:
    server.faults[MODEL_PATH] = [Fault(cut=500_000), Fault(whole=True)]
    get(model, target, report)
    assert contents(target) == INSTALLED
    assert report.done_bytes[0] == len(MODEL)


def test_another_range_than_the_requested_one_restarts_the_download(
    server: FileServer, model: Model, target: Path, report: Recorded
) -> None:
    server.faults[MODEL_PATH] = [Fault(cut=500_000), Fault(shift=7)]
    get(model, target, report)
    assert server.ranges(MODEL_PATH) == ["", "bytes=500000-", ""]
    assert contents(target) == INSTALLED


def test_a_part_that_is_longer_than_the_file_restarts_the_download(
    server: FileServer, model: Model, target: Path, report: Recorded
) -> None:
    part = target.with_name(".tiny.fetching") / "download/model-v1.onnx.part"
    part.parent.mkdir(parents=True)
    part.write_bytes(MODEL + b"more")
    get(model, target, report)
    assert contents(target) == INSTALLED
    assert report.done_bytes[0] == len(MODEL)


def test_a_part_that_is_the_whole_file_is_not_downloaded_again(
    server: FileServer, model: Model, target: Path, report: Recorded
) -> None:
    """As a command leaves it that is killed before it renames the file."""
    part = target.with_name(".tiny.fetching") / "download/model-v1.onnx.part"
    part.parent.mkdir(parents=True)
    part.write_bytes(MODEL)
    get(model, target, report)
    assert contents(target) == INSTALLED
    assert server.ranges(MODEL_PATH) == [f"bytes={len(MODEL)}-"]
    assert report.done_bytes[0] == len(MODEL)


@pytest.mark.parametrize("code", [errno.ENETUNREACH, errno.EHOSTUNREACH, errno.ECONNRESET])
def test_an_error_of_the_network_in_the_middle_continues_the_download(
    server: FileServer,
    model: Model,
    target: Path,
    report: Recorded,
    monkeypatch: pytest.MonkeyPatch,
    code: int,
) -> None:
    failures = [OSError(code, os.strerror(code))]
    read = http.client.HTTPResponse.read

    def fail_once(response: http.client.HTTPResponse, size_bytes: int) -> bytes:
        if failures and report.done_bytes[0]:
            raise failures.pop()
        return read(response, size_bytes)

    monkeypatch.setattr(http.client.HTTPResponse, "read", fail_once)
    get(model, target, report)
    assert contents(target) == INSTALLED
    assert len(server.ranges(MODEL_PATH)) == 2


@pytest.mark.parametrize("path", [MODEL_PATH, VOICES_PATH])
def test_wrong_bytes_are_refused_and_nothing_is_left(
    server: FileServer, model: Model, target: Path, report: Recorded, path: str
) -> None:
    right = server.files[path]
    server.files[path] = right[:-2000] + bytes(1000) + right[-1000:]
    wrong = "model.onnx" if path == MODEL_PATH else "damaged or cut short"
    assert wrong in refused(model, target, report)
    assert left_beside(target) == []


def test_a_wrong_voice_is_named(server: FileServer, model: Model, target: Path, report: Recorded) -> None:
    server.files[VOICES_PATH] = npz({**VOICES, "am_two": bytes(200_000)})
    said = refused(model, target, report)
    assert said.startswith("voices/am_two.bin is not the published file: its SHA-256 is another one.")
    assert left_beside(target) == []


def test_a_release_without_a_voice_is_refused(
    server: FileServer, model: Model, target: Path, report: Recorded
) -> None:
    server.files[VOICES_PATH] = npz({"zf_one": VOICES["zf_one"]})
    assert "voices/am_two.bin (200000 bytes) missing" in refused(model, target, report)
    assert left_beside(target) == []


def test_a_part_of_other_bytes_is_noticed_after_it_was_continued(
    server: FileServer, model: Model, target: Path, report: Recorded
) -> None:
    part = target.with_name(".tiny.fetching") / "download/model-v1.onnx.part"
    part.parent.mkdir(parents=True)
    part.write_bytes(bytes(1000))
    assert "model.onnx is not the published file" in refused(model, target, report)
    get(model, target, report)
    assert contents(target) == INSTALLED


@pytest.mark.parametrize("status", [403, 404, 503])
def test_an_error_of_the_server_is_named(
    server: FileServer, model: Model, target: Path, report: Recorded, status: int
) -> None:
    server.faults[MODEL_PATH] = [Fault(status=status)]
    said = refused(model, target, report)
    assert said.startswith(f"localhost:{server.url.split(':')[2][:-1]} answers {status}")
    assert left_beside(target) == []


def test_a_file_that_is_far_too_long_is_refused(
    server: FileServer, model: Model, target: Path, report: Recorded
) -> None:
    server.faults[MODEL_PATH] = [Fault(declare=10 * len(MODEL))]
    assert "which is not the published one" in refused(model, target, report)


def test_a_server_that_sends_nothing_is_given_up(
    server: FileServer, model: Model, target: Path, report: Recorded, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetch, "IDLE_S", 0.2)
    server.faults[MODEL_PATH] = [Fault(cut=300_000, hold=True)] + [Fault(cut=0, hold=True)] * fetch.TRIES
    assert "the connection broke (no answer in time)" in refused(model, target, report)
    assert left_beside(target) == [".tiny.fetching"]


def test_redirects_are_followed_to_https_alone(
    server: FileServer, model: Model, target: Path, report: Recorded
) -> None:
    server.files["/elsewhere"] = MODEL
    server.faults[MODEL_PATH] = [Fault(location="http://localhost:1/elsewhere")]
    assert "redirects to an address that isn't https" in refused(model, target, report)

    server.faults[MODEL_PATH] = [Fault(location=f"{server.url}elsewhere"), Fault(location="/elsewhere")]
    server.faults["/elsewhere"] = [Fault(cut=10)]
    get(model, target, report)
    assert server.ranges("/elsewhere") == ["", "bytes=10-"]
    assert contents(target) == INSTALLED


def test_an_untrusted_server_is_refused(
    model: Model, target: Path, report: Recorded, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SSL_CERT_FILE")
    assert "certificate verify failed" in refused(model, target, report)


def test_no_network_is_named(target: Path, report: Recorded) -> None:
    assert "localhost:1 can't be reached: Connection refused." in refused(
        at("https://localhost:1/files/"), target, report
    )


def test_the_model_that_is_there_stays_until_the_new_one_is_complete(
    server: FileServer, model: Model, target: Path, report: Recorded
) -> None:
    get(model, target, report)
    (target / "voices/zf_one.bin").write_bytes(b"old")
    server.faults[VOICES_PATH] = [Fault(status=404)]
    with pytest.raises(CommandError):
        get(model, target, report)
    assert contents(target) == {**INSTALLED, "voices/zf_one.bin": b"old"}

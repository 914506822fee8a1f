"""A release over HTTPS, also one that is cut short, wrong, missing or slow."""

import errno
import http.client
import os
from pathlib import Path

import pytest

from myna.engines.models import sources
from myna.engines.models.published import SourceFailed
from myna.errors import CommandError
from tests.models.conftest import Fetching, left_beside
from tests.models.file_server import Fault
from tests.models.stand_in import INSTALLED, MODEL, contents, npz

MODEL_PATH, VOICES_PATH = "/files/model-v1.onnx", "/files/voices-v1.bin"


def refused(fetching: Fetching) -> str:
    """The error of a release that must fail: one line, and no model."""
    said = fetching.refused(SourceFailed)
    assert not fetching.target.exists()
    return said


def test_a_release_is_fetched_checked_and_put_in_place(fetching: Fetching) -> None:
    got = fetching.get()

    assert (got.folder, got.source) == (fetching.target, "release")
    fetching.check_there()
    assert fetching.report.steps == ["model-v1.onnx", "voices-v1.bin", "copying tiny"]
    assert fetching.report.done_bytes == [len(MODEL), len(npz()), fetching.model.size_bytes]


def test_a_complete_model_is_not_fetched_again(fetching: Fetching) -> None:
    fetching.get()
    fetching.server.requests.clear()
    assert fetching.get("").source == "already there"
    assert fetching.server.requests == []


def test_a_damaged_file_of_the_same_size_is_noticed_and_replaced(fetching: Fetching) -> None:
    fetching.get()
    (fetching.target / "model.onnx").write_bytes(bytes(len(MODEL)))
    assert fetching.get().source == "release"
    fetching.check_there()


@pytest.mark.parametrize("cut", [0, 1, 700_000, len(MODEL) - 1])
def test_an_answer_that_is_cut_short_is_continued(fetching: Fetching, cut: int) -> None:
    fetching.server.faults[MODEL_PATH] = [Fault(cut=cut)]
    fetching.get()
    fetching.check_there()
    assert fetching.server.ranges(MODEL_PATH) == ["", f"bytes={cut}-" if cut else ""]
    assert fetching.report.done_bytes[0] == len(MODEL)


def test_a_server_that_always_ends_early_is_given_up_and_its_bytes_are_kept(fetching: Fetching) -> None:
    fetching.server.faults[MODEL_PATH] = [Fault(cut=500_000), *[Fault(cut=0)] * sources.TRIES]
    assert "the connection ended after 500000 of 1500001 bytes" in refused(fetching)
    assert left_beside(fetching.target) == [".tiny.fetching"]
    assert contents(part_of(fetching).parents[1]) == {"download/model-v1.onnx.part": MODEL[:500_000]}

    fetching.server.requests.clear()
    fetching.get()
    assert fetching.server.ranges(MODEL_PATH) == ["bytes=500000-"]
    fetching.check_there()


@pytest.mark.parametrize(
    ("second", "ranges"),
    [(Fault(whole=True), ["", "bytes=500000-"]), (Fault(shift=7), ["", "bytes=500000-", ""])],
)
def test_an_answer_without_the_requested_range_restarts_the_download(
    fetching: Fetching, second: Fault, ranges: list[str]
) -> None:
    fetching.server.faults[MODEL_PATH] = [Fault(cut=500_000), second]
    fetching.get()
    fetching.check_there()
    assert fetching.server.ranges(MODEL_PATH) == ranges
    assert fetching.report.done_bytes[0] == len(MODEL)


def part_of(fetching: Fetching) -> Path:
    """Where a download of the model is kept until it is complete."""
    part = fetching.target.with_name(".tiny.fetching") / "download/model-v1.onnx.part"
    part.parent.mkdir(parents=True, exist_ok=True)
    return part


@pytest.mark.parametrize("more", [b"", b"more"])
def test_a_part_that_is_the_whole_file_is_not_downloaded_again_and_a_longer_one_is(
    fetching: Fetching, more: bytes
) -> None:
    """The first as a command leaves it that is killed before it renames the file."""
    part_of(fetching).write_bytes(MODEL + more)
    fetching.get()
    fetching.check_there()
    assert len(fetching.server.ranges(MODEL_PATH)) == (2 if more else 1)
    assert fetching.report.done_bytes[0] == len(MODEL)


@pytest.mark.parametrize("code", [errno.ENETUNREACH, errno.EHOSTUNREACH, errno.ECONNRESET])
def test_an_error_of_the_network_in_the_middle_continues_the_download(
    fetching: Fetching, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    failures = [OSError(code, os.strerror(code))]
    read = http.client.HTTPResponse.read

    def fail_once(response: http.client.HTTPResponse, size_bytes: int) -> bytes:
        if failures and fetching.report.done_bytes[0]:
            raise failures.pop()
        return read(response, size_bytes)

    monkeypatch.setattr(http.client.HTTPResponse, "read", fail_once)
    fetching.get()
    fetching.check_there()
    assert len(fetching.server.ranges(MODEL_PATH)) == 2


@pytest.mark.parametrize("path", [MODEL_PATH, VOICES_PATH])
def test_wrong_bytes_are_refused_and_nothing_is_left(fetching: Fetching, path: str) -> None:
    right = fetching.server.files[path]
    fetching.server.files[path] = right[:-2000] + bytes(1000) + right[-1000:]
    wrong = "model.onnx" if path == MODEL_PATH else "damaged or cut short"
    assert wrong in refused(fetching)
    assert left_beside(fetching.target) == []


@pytest.mark.parametrize("status", [403, 404, 503])
def test_an_error_of_the_server_is_named(fetching: Fetching, status: int) -> None:
    fetching.server.faults[MODEL_PATH] = [Fault(status=status)]
    said = refused(fetching)
    assert said.startswith(f"localhost:{fetching.server.url.split(':')[2][:-1]} answers {status}")
    assert left_beside(fetching.target) == []


def test_a_file_that_is_far_too_long_is_refused(fetching: Fetching) -> None:
    fetching.server.faults[MODEL_PATH] = [Fault(declare=10 * len(MODEL))]
    assert "which is not the published one" in refused(fetching)


def test_a_server_that_sends_nothing_is_given_up(fetching: Fetching, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "IDLE_S", 0.2)
    fetching.server.faults[MODEL_PATH] = [
        *[Fault(cut=300_000, hold=True)], *[Fault(cut=0, hold=True)] * sources.TRIES,
    ]  # fmt: skip
    assert "the connection broke (no answer in time)" in refused(fetching)
    assert left_beside(fetching.target) == [".tiny.fetching"]


def test_redirects_are_followed_to_https_alone(fetching: Fetching) -> None:
    fetching.server.files["/elsewhere"] = MODEL
    fetching.server.faults[MODEL_PATH] = [Fault(location="http://localhost:1/elsewhere")]
    assert "redirects to an address that isn't https" in refused(fetching)

    fetching.server.faults[MODEL_PATH] = [
        Fault(location=f"{fetching.server.url}elsewhere"),
        Fault(location="/elsewhere"),
    ]
    fetching.server.faults["/elsewhere"] = [Fault(cut=10)]
    fetching.get()
    assert fetching.server.ranges("/elsewhere") == ["", "bytes=10-"]
    fetching.check_there()


def test_an_untrusted_server_is_refused(fetching: Fetching, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SSL_CERT_FILE")
    assert "certificate verify failed" in refused(fetching)


def test_the_model_that_is_there_stays_until_the_new_one_is_complete(fetching: Fetching) -> None:
    fetching.get()
    (fetching.target / "voices/zf_one.bin").write_bytes(b"old")
    fetching.server.faults[VOICES_PATH] = [Fault(status=404)]
    with pytest.raises(CommandError):
        fetching.get()
    assert contents(fetching.target) == {**INSTALLED, "voices/zf_one.bin": b"old"}

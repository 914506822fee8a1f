"""myna models get, list and remove; also as processes that are interrupted, killed, or two at once."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from myna.cli import main
from myna.engines.models.published import MODELS, Model
from myna.engines.sherpa.models import KNOWN
from tests.models.conftest import left_beside
from tests.models.file_server import Fault, FileServer
from tests.models.stand_in import INSTALLED, MODEL, contents
from tests.rig.processes import tethered
from tests.rig.waiting import wait_until

MODEL_PATH = "/files/model-v1.onnx"
ROOT = Path(__file__).parents[2]
DEADLINE_S = 100
Process = subprocess.Popen[str]
Starter = Callable[..., Process]
Runner = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(
    model: Model, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Iterator[Runner]:
    """Runs `myna models …` in this process with the data folder `data`; its exit code and what it printed."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MYNA_DATA", str(tmp_path / "data"))
    monkeypatch.setitem(MODELS, "tiny", model)
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}

    def models(*arguments: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as end:
            main(["models", *arguments])
        assert isinstance(end.value.code, int)
        return end.value.code, *capsys.readouterr()

    yield models
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture
def start(server: FileServer, tmp_path: Path) -> Iterator[Starter]:
    """Starts `myna models …` with the data folder `data`."""
    started: list[Process] = []

    def run(*arguments: str, url: str = f"{server.url}files/", **env: str) -> Process:
        command = tethered([sys.executable, "-m", "tests.models.command", url, "models", *arguments])
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("MYNA_")}
        env = {**inherited, "PYTHONPATH": str(ROOT), "MYNA_DATA": str(tmp_path / "data"), **env}
        pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        started.append(subprocess.Popen(command, cwd=tmp_path, env=env, text=True, **pipes))
        return started[-1]

    yield run
    for process in started:
        process.kill()
        process.communicate()


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return tmp_path / "data/models/tiny"


def ended(process: Process) -> tuple[int, str, str]:
    out, err = process.communicate(timeout=DEADLINE_S)
    return process.returncode, out, err


def test_get_list_and_remove(run: Runner, target: Path) -> None:
    def listed() -> dict[str, object]:
        code, out, err = run("list", "--json")
        assert code == 0, err
        (row,) = [row for row in json.loads(out) if row["name"] == "tiny"]
        assert isinstance(row, dict)
        return row

    assert listed() == {
        "name": "tiny", "kind": "2 voices", "size_mb": 2, "licence": "Apache-2.0", "languages": ["zh", "en"],
        "state": "absent", "folder": str(target), "get": "myna models get tiny", "beside": [],
    }  # fmt: skip

    code, out, err = run("get", "tiny")
    assert code == 0, err
    assert f"folder   {target}\nsource   release\n" in out
    assert "myna: model-v1.onnx (2 MB)" in err
    assert contents(target) == INSTALLED and left_beside(target) == []
    assert target.parents[1].stat().st_mode & 0o777 == 0o700
    assert listed()["state"] == "installed"

    (target / "voices/zf_one.bin").write_bytes(b"short")
    assert listed()["state"] == "incomplete"
    code, out, err = run("get", "tiny", "--json")
    assert (code, err) == (0, "")
    assert json.loads(out)["source"] == "release"
    assert listed()["state"] == "installed"

    assert run("remove", "tiny")[:2] == (0, f"model    tiny\nremoved  {target}\n")
    assert not target.exists() and left_beside(target) == []
    code, out, err = run("remove", "tiny")
    assert (code, out) == (1, "")
    assert err.startswith(f"myna: tiny is not in {target}: nothing was removed.")


def test_to_names_another_folder(run: Runner, tmp_path: Path) -> None:
    assert run("get", "tiny", "--to", "here/it")[0] == 0
    assert contents(tmp_path / "here/it") == INSTALLED
    assert not (tmp_path / "data").exists()


def test_what_cannot_be_fetched_is_refused_in_one_line(run: Runner, tmp_path: Path) -> None:
    unknown = "myna: There is no model 'nothing' to fetch; there is: kokoro, whisper, tiny.\n"
    for command in ("get", "remove"):
        assert run(command, "nothing") == (2, "", unknown)
    known = KNOWN[0]
    code, _, err = run("get", known.name)
    assert (code, err.startswith(f"myna: {known.name} is a model of sherpa-onnx")) == (2, True)
    assert known.url in err
    assert "myna models add FOLDER" in err
    code, _, err = run("get", "tiny", "--from", "")
    assert (code, "--from: is empty" in err) == (1, True)
    code, _, err = run("get", "tiny", "--to", "/proc/tiny")  # no lock can be made there
    assert (code, "waiting" in err) == (1, False)
    (tmp_path / "data").write_text("a file")
    said = f"myna: MYNA_DATA: {tmp_path}/data can't be written to: File exists.\n"
    assert run("get", "tiny") == (2, "", said)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_download_is_continued(
    start: Starter, run: Runner, server: FileServer, target: Path, number: signal.Signals
) -> None:
    server.faults[MODEL_PATH] = [Fault(cut=900_000, hold=True)]
    command = start("get", "tiny")
    part = target.with_name(".tiny.fetching") / "download/model-v1.onnx.part"
    wait_until(lambda: part.exists() and part.stat().st_size >= 500_000, DEADLINE_S, "half is there")
    command.send_signal(number)
    code, out, err = ended(command)
    assert (code, out) == (130, "")
    assert err.splitlines()[-1] == "myna: interrupted; 'myna models get tiny' tries again."
    assert not target.exists()
    assert contents(target.with_name(".tiny.fetching")).keys() == {"download/model-v1.onnx.part"}
    have = part.stat().st_size

    assert run("get", "tiny")[0] == 0
    assert server.ranges(MODEL_PATH) == ["", f"bytes={have}-"]
    assert contents(target) == INSTALLED and left_beside(target) == []


def test_a_killed_command_does_not_hinder_the_next(
    start: Starter, run: Runner, server: FileServer, target: Path
) -> None:
    server.faults["/files/voices-v1.bin"] = [Fault(cut=100_000, hold=True)]
    command = start("get", "tiny")
    wait_until(lambda: bool(server.ranges("/files/voices-v1.bin")), DEADLINE_S, "the model is there")
    staged = target.with_name(".tiny.fetching") / "files"
    command.kill()
    ended(command)
    staged.mkdir()
    (staged / "model.onnx").write_bytes(b"of a command that was killed while it copied")

    assert run("get", "tiny")[0] == 0
    assert server.ranges(MODEL_PATH) == [""]
    assert contents(target) == INSTALLED and left_beside(target) == []


def test_two_commands_at_once_fetch_it_once(start: Starter, server: FileServer, target: Path) -> None:
    server.faults[MODEL_PATH] = [Fault(cut=900_000, hold=True)]
    first = start("get", "tiny")
    wait_until(lambda: bool(server.requests), DEADLINE_S, "the first fetches")
    second = start("get", "tiny")
    assert second.stderr is not None
    assert second.stderr.readline() == f"myna: Another command works on {target}: waiting for it.\n"
    server.resume()

    for command, source in ((first, "release"), (second, "already there")):
        code, out, err = ended(command)
        assert code == 0, err
        assert f"source   {source}\n" in out
    assert server.ranges(MODEL_PATH) == [""]
    assert contents(target) == INSTALLED and left_beside(target) == []


def test_a_full_disk_is_named_and_remove_removes_the_interrupted_download(
    start: Starter, run: Runner, target: Path
) -> None:
    code, out, err = ended(start("get", "tiny", "--from", "release", MYNA_TEST_FILE_MAX="1000000"))
    assert (code, out) == (1, ""), err
    assert err.endswith("File too large; make space, or name a folder on another disk with --to.\n")
    assert not target.exists()
    kept = contents(target.with_name(".tiny.fetching"))
    assert kept == {"download/model-v1.onnx.part": MODEL[:1_000_000]}
    assert run("remove", "tiny")[0] == 0
    assert left_beside(target) == []

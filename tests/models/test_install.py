"""The folder of a model: replaced as a whole, restored, protected, removed."""

import os
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest

from myna.errors import CommandError
from myna.models import install
from myna.models.catalog import Model
from myna.models.installed import MODELS, installed
from tests.models.conftest import Recorded, left_beside
from tests.models.file_server import FileServer
from tests.models.stand_in import INSTALLED, TINY, contents
from tests.rig.disks import read_only


def refused(model: Model, target: Path, report: Recorded) -> str:
    with pytest.raises(CommandError) as failure:
        install.get(model, target, install.RELEASE, report)
    assert "\n" not in str(failure.value)
    return str(failure.value)


def test_a_model_is_installed_if_every_file_has_its_size(
    model: Model, tmp_path: Path, report: Recorded, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(MODELS, "tiny", TINY)
    assert installed(tmp_path, "tiny") is None
    target = install.get(model, tmp_path / "models/tiny", install.RELEASE, report).folder
    assert installed(tmp_path, "tiny") == target

    (target / "voices/zf_one.bin").rename(target / "elsewhere")
    assert installed(tmp_path, "tiny") is None
    (target / "voices/zf_one.bin").mkdir()
    assert installed(tmp_path, "tiny") is None
    (target / "voices/zf_one.bin").rmdir()
    (target / "voices/zf_one.bin").write_bytes(b"short")
    assert installed(tmp_path, "tiny") is None
    with pytest.raises(KeyError):
        installed(tmp_path, "nothing")


def test_kokoro_has_its_model_and_36_voices() -> None:
    kokoro = MODELS["kokoro"]
    assert len(kokoro.files) == 37 == len({file.path for file in kokoro.files})
    assert len({file.sha256 for file in kokoro.files}) == 37
    kinds = [file.path.removeprefix("voices/")[:3] for file in kokoro.files[1:]]
    assert {kind: kinds.count(kind) for kind in kinds} == {
        "zf_": 4, "zm_": 4, "af_": 11, "am_": 9, "bf_": 4, "bm_": 4,
    }  # fmt: skip
    parts = [piece for piece in kokoro.pieces if piece.name.endswith("/part.bin")]
    assert sum(part.size_bytes for part in parts) == kokoro.files[0].size_bytes
    assert [part.offset_bytes for part in parts] == [number * parts[0].size_bytes for number in range(4)]


def test_a_command_that_died_between_two_renames_is_completed(
    server: FileServer, model: Model, target: Path, report: Recorded
) -> None:
    install.get(model, target, install.RELEASE, report)
    server.requests.clear()
    target.rename(target.with_name(".tiny.old"))
    assert install.get(model, target, install.RELEASE, report).source == install.ALREADY

    shutil.copytree(target, target.with_name(".tiny.old"))
    assert install.get(model, target, install.RELEASE, report).source == install.ALREADY
    assert left_beside(target) == []
    assert server.requests == []


def test_the_folder_before_it_is_restored_if_the_new_one_cannot_be_renamed(
    model: Model, target: Path, report: Recorded, monkeypatch: pytest.MonkeyPatch
) -> None:
    install.get(model, target, install.RELEASE, report)
    (target / "model.onnx").write_bytes(b"old")
    rename = Path.rename

    def fails_for_the_new_one(self: Path, to: Path) -> Path:
        return read_only() if self.name == "files" else rename(self, to)  # type: ignore[func-returns-value]

    monkeypatch.setattr(Path, "rename", fails_for_the_new_one)
    assert "Read-only file system" in refused(model, target, report)
    assert contents(target) == {**INSTALLED, "model.onnx": b"old"}
    assert ".tiny.old" not in left_beside(target)


def test_a_folder_with_other_files_is_neither_replaced_nor_removed(
    server: FileServer, model: Model, target: Path, report: Recorded
) -> None:
    target.mkdir(parents=True)
    (target / "thesis.txt").write_text("years of work")
    said = (
        f"{target} has files that aren't of tiny, such as thesis.txt: remove them, or choose another folder."
    )
    assert refused(model, target, report) == said
    with pytest.raises(CommandError, match="thesis"):
        install.remove(model, target, report)
    assert contents(target) == {"thesis.txt": b"years of work"}
    assert server.requests == []


def test_a_file_in_place_of_the_folder_is_refused(model: Model, target: Path, report: Recorded) -> None:
    target.parent.mkdir()
    target.write_text("a file")
    assert refused(model, target, report).startswith(f"{target} is a file, not a folder: remove it,")


def test_the_root_folder_is_refused(model: Model, report: Recorded) -> None:
    assert refused(model, Path("/tmp/.."), report).startswith("/ can't be the folder of a model")  # noqa: S108


def test_too_little_space_is_refused_before_anything_is_fetched(
    server: FileServer, model: Model, target: Path, report: Recorded, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=17_000_000))
    assert refused(model, target, report) == (
        f"The disk of {target.parent} has 17 MB free, and tiny needs 19 MB while it is fetched: make space,"
        " or name a folder on another disk with --to."
    )
    assert server.requests == [] and left_beside(target) == []


def test_a_folder_that_cannot_be_written_is_named(
    model: Model, target: Path, report: Recorded, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Path, "mkdir", read_only)
    assert refused(model, target, report).endswith(
        ": Read-only file system; change its permissions, or name another folder."
    )


def test_a_link_to_a_model_is_enough_and_remove_leaves_what_it_names(
    model: Model, target: Path, report: Recorded, tmp_path: Path
) -> None:
    kept = install.get(model, tmp_path / "kept", install.RELEASE, report).folder
    target.parent.mkdir(parents=True)
    target.symlink_to(kept)
    assert install.get(model, target, install.RELEASE, report).source == install.ALREADY
    assert install.remove(model, target, report)
    assert not target.is_symlink()
    assert contents(kept) == INSTALLED


def test_the_files_belong_to_the_services_user(
    model: Model, target: Path, report: Recorded, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: dict[str, tuple[int, int]] = {}

    def chown(path: Path, user: int, group: int, *, follow_symlinks: bool) -> None:
        assert not follow_symlinks
        given[path.name] = (user, group)

    monkeypatch.setattr(os, "chown", chown)
    install.get(model, target, install.RELEASE, report, (12, 34))
    assert given.keys() == {
        "models", ".tiny.lock", "files", "voices", "model.onnx", "zf_one.bin", "am_two.bin",
    }  # fmt: skip
    assert set(given.values()) == {(12, 34)}

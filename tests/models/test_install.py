"""The folder of a model: replaced as a whole, restored, protected, removed."""

import os
import shutil
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from myna.errors import CommandError
from myna.models import install
from myna.models.installed import MODELS, installed
from tests.models.conftest import Fetching, left_beside
from tests.models.stand_in import INSTALLED, TINY, contents
from tests.rig.disks import read_only


def test_a_model_is_installed_if_every_file_has_its_size(
    fetching: Fetching, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(MODELS, "tiny", TINY)
    assert installed(tmp_path, "tiny") is None
    target = install.get(fetching.model, tmp_path / "models/tiny", install.RELEASE, fetching.report).folder
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


def test_a_command_that_died_between_two_renames_is_completed(fetching: Fetching) -> None:
    fetching.get()
    fetching.server.requests.clear()
    fetching.target.rename(fetching.target.with_name(".tiny.old"))
    assert fetching.get().source == install.ALREADY

    shutil.copytree(fetching.target, fetching.target.with_name(".tiny.old"))
    assert fetching.get().source == install.ALREADY
    assert left_beside(fetching.target) == []
    assert fetching.server.requests == []


def test_the_folder_before_it_is_restored_if_the_new_one_cannot_be_renamed(
    fetching: Fetching, monkeypatch: pytest.MonkeyPatch
) -> None:
    fetching.get()
    (fetching.target / "model.onnx").write_bytes(b"old")
    rename = Path.rename

    def fails_for_the_new_one(self: Path, to: Path) -> Path:
        return read_only() if self.name == "files" else rename(self, to)  # type: ignore[func-returns-value]

    monkeypatch.setattr(Path, "rename", fails_for_the_new_one)
    assert "Read-only file system" in fetching.refused()
    assert contents(fetching.target) == {**INSTALLED, "model.onnx": b"old"}
    assert ".tiny.old" not in left_beside(fetching.target)


def test_a_folder_with_other_files_is_neither_replaced_nor_removed(fetching: Fetching) -> None:
    fetching.target.mkdir(parents=True)
    (fetching.target / "thesis.txt").write_text("years of work")
    said = (
        f"{fetching.target} has files that aren't of tiny, such as thesis.txt: remove them, or choose another"
    )
    assert fetching.refused() == f"{said} folder."
    with pytest.raises(CommandError, match="thesis"):
        install.remove(fetching.model, fetching.target, fetching.report)
    assert contents(fetching.target) == {"thesis.txt": b"years of work"}
    assert fetching.server.requests == []


def test_a_file_in_place_of_the_folder_is_refused(fetching: Fetching) -> None:
    fetching.target.parent.mkdir()
    fetching.target.write_text("a file")
    assert fetching.refused().startswith(f"{fetching.target} is a file, not a folder: remove it,")


def test_the_root_folder_is_refused(fetching: Fetching) -> None:
    root = replace(fetching, target=Path("/tmp/.."))  # noqa: S108
    assert root.refused().startswith("/ can't be the folder of a model")


def test_too_little_space_is_refused_before_anything_is_fetched(
    fetching: Fetching, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=17_000_000))
    assert fetching.refused() == (
        f"The disk of {fetching.target.parent} has 17 MB free, and tiny needs 19 MB while it is fetched:"
        " make space, or name a folder on another disk with --to."
    )
    assert fetching.server.requests == [] and left_beside(fetching.target) == []


def test_a_folder_that_cannot_be_written_is_named(
    fetching: Fetching, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Path, "mkdir", read_only)
    assert fetching.refused().endswith(
        ": Read-only file system; change its permissions, or name another folder."
    )


def test_a_link_to_a_model_is_enough_and_remove_leaves_what_it_names(
    fetching: Fetching, tmp_path: Path
) -> None:
    kept = install.get(fetching.model, tmp_path / "kept", install.RELEASE, fetching.report).folder
    fetching.target.parent.mkdir(parents=True)
    fetching.target.symlink_to(kept)
    assert fetching.get().source == install.ALREADY
    assert install.remove(fetching.model, fetching.target, fetching.report)
    assert not fetching.target.is_symlink()
    assert contents(kept) == INSTALLED


def test_the_files_belong_to_the_services_user(fetching: Fetching, monkeypatch: pytest.MonkeyPatch) -> None:
    given: dict[str, tuple[int, int]] = {}

    def chown(path: Path, user: int, group: int, *, follow_symlinks: bool) -> None:
        assert not follow_symlinks
        given[path.name] = (user, group)

    monkeypatch.setattr(os, "chown", chown)
    install.get(fetching.model, fetching.target, install.RELEASE, fetching.report, (12, 34))
    assert given.keys() == {
        "models", ".tiny.lock", "files", "voices", "model.onnx", "zf_one.bin", "am_two.bin",
    }  # fmt: skip
    assert set(given.values()) == {(12, 34)}

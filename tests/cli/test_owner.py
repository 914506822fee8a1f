"""Files that a command writes into the data folder can be read by the service, also if root runs it."""

import os
from pathlib import Path

import pytest

from myna.cli.console import owner_of_files
from myna.errors import CommandError
from myna.settings import Settings
from myna.store.files.named_files import SampleStore
from myna.store.files.storage import Folder

OTHER_UID, ROOT = 4711, 0


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    found = Settings(data=str(tmp_path))
    found.sqlite_file.touch()
    return found


def run_by(user: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: user)


def test_the_services_own_user_keeps_what_it_writes(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    if os.geteuid() == ROOT:
        os.chown(settings.sqlite_file, OTHER_UID, OTHER_UID)
    run_by(settings.sqlite_file.stat().st_uid, monkeypatch)
    assert owner_of_files(settings) is None


def test_another_user_is_refused_by_name(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    run_by(settings.sqlite_file.stat().st_uid + OTHER_UID, monkeypatch)
    with pytest.raises(
        CommandError, match=r"^The service's files belong to .*: run it as that user, or as root"
    ):
        owner_of_files(settings)


def test_a_sample_and_its_folders_get_that_owner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[tuple[Path, int, int]] = []
    monkeypatch.setattr(os, "chown", lambda path, user, group: given.append((path, user, group)))
    name, path = SampleStore(Folder(tmp_path), (7, 8)).new()
    path.touch()
    SampleStore(Folder(tmp_path), (7, 8)).make_private(name)
    assert given == [(found, 7, 8) for found in (tmp_path / "samples", path.parent, path)]
    SampleStore(Folder(tmp_path)).make_private(name)
    assert len(given) == 3

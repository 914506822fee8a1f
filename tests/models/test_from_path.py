"""Files that a person has copied: as a release, as packages, as an installed model, in archives."""

import io
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from myna.engines.models import install
from myna.errors import CommandError
from tests.models.conftest import Recorded, left_beside
from tests.models.stand_in import HALF, INSTALLED, MODEL, TINY, VOICES, contents, npz, tarball, wheels

OTHER_FILES = "Name a folder or archive with the published files, or omit --from to fetch them."


def write(folder: Path, files: dict[str, bytes]) -> Path:
    for name, data in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return folder


def zipped(path: Path, files: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return path


def as_release(folder: Path) -> Path:
    return write(folder, {"model-v1.onnx": MODEL, "voices-v1.bin": npz()})


def as_installed(folder: Path) -> Path:
    return write(folder, INSTALLED)


def as_packages(folder: Path) -> Path:
    return write(wheels(folder), {"stand-in-js-1.2.1.tgz": tarball()})


def as_unpacked_packages(folder: Path) -> Path:
    parts = {"stand_in_part_1/part.bin": MODEL[:HALF], "stand_in_part_2/part.bin": MODEL[HALF:]}
    return write(folder, parts | {f"npm/package/voices/{name}.bin": data for name, data in VOICES.items()})


def as_zip_of_a_release(folder: Path) -> Path:
    folder.mkdir()
    return zipped(folder / "all.zip", {"tiny/voices-v1.bin": npz(), "tiny/model-v1.onnx": MODEL})


def as_zip_of_packages(folder: Path) -> Path:
    inside = {path.name: path.read_bytes() for path in as_packages(folder).iterdir()}
    return zipped(folder / "all.zip", inside)


def as_tar(folder: Path) -> Path:
    folder.mkdir()
    with tarfile.open(folder / "tiny.tar.gz", "w:gz") as archive:
        for name, data in INSTALLED.items():
            info = tarfile.TarInfo(f"tiny/{name}")
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return folder / "tiny.tar.gz"


@pytest.mark.parametrize(
    "form",
    [as_release, as_installed, as_packages, as_unpacked_packages, as_zip_of_a_release, as_zip_of_packages,
     as_tar],
)  # fmt: skip
def test_every_form_in_which_the_files_are_copied_is_read(
    tmp_path: Path, target: Path, report: Recorded, form: Callable[[Path], Path]
) -> None:
    source = form(tmp_path / "copied")
    before = source.read_bytes() if source.is_file() else contents(source)

    got = install.get(TINY, target, str(source), report)

    assert got.source == str(source)
    assert contents(target) == INSTALLED
    assert left_beside(target) == []
    assert (source.read_bytes() if source.is_file() else contents(source)) == before


def refused(source: Path, target: Path, report: Recorded) -> str:
    with pytest.raises(CommandError) as failure:
        install.get(TINY, target, str(source), report)
    assert not target.exists() and left_beside(target) == []
    assert "\n" not in str(failure.value)
    return str(failure.value)


def test_a_file_that_is_missing_is_named(tmp_path: Path, target: Path, report: Recorded) -> None:
    source = as_installed(tmp_path / "copied")
    (source / "voices/am_two.bin").unlink()
    assert refused(source, target, report) == (
        f"{source} doesn't have all of tiny: voices/am_two.bin (200000 bytes) missing. {OTHER_FILES}"
    )
    (source / "model.onnx").write_bytes(MODEL[:-5])
    assert "model.onnx (1500001 bytes) and 1 more missing; model.onnx has 1499996 bytes" in refused(
        source, target, report
    )


@pytest.mark.parametrize("name", ["stand_in_part_2-0.1.0-py3-none-any.whl", "stand-in-js-1.2.1.tgz"])
def test_an_archive_cut_short_is_named(tmp_path: Path, target: Path, report: Recorded, name: str) -> None:
    source = as_packages(tmp_path / "copied")
    path = source / name
    path.write_bytes(path.read_bytes()[:-100_000])
    assert name in refused(source, target, report)


def test_a_path_that_is_not_there_is_named(tmp_path: Path, target: Path, report: Recorded) -> None:
    said = refused(tmp_path / "nowhere", target, report)
    assert said == (
        f"--from: there is no file or folder {tmp_path / 'nowhere'}; other sources are 'release' and"
        " 'packages'."
    )


def test_a_folder_or_archive_of_many_files_is_refused(tmp_path: Path, target: Path, report: Recorded) -> None:
    names = [f"{number}.txt" for number in range(20_001)]
    (tmp_path / "copied").mkdir()
    for name in names:
        (tmp_path / "copied" / name).touch()
    assert refused(tmp_path / "copied", target, report) == (
        f"{tmp_path / 'copied'} has over 20000 files, too many to search. {OTHER_FILES}"
    )
    many = zipped(tmp_path / "many.zip", dict.fromkeys(names, b""))
    assert "has over 20000 files" in refused(many, target, report)


def test_a_name_in_an_archive_never_becomes_a_path(tmp_path: Path, target: Path, report: Recorded) -> None:
    source = zipped(
        tmp_path / "evil.zip",
        {"../../outside.txt": b"x", "../model.onnx": MODEL}
        | {f"/tmp/{name}.bin": data for name, data in VOICES.items()},  # noqa: S108  a name in an archive
    )
    install.get(TINY, target, str(source), report)
    assert contents(target) == INSTALLED
    assert sorted(path.name for path in tmp_path.iterdir()) == ["evil.zip", "models"]

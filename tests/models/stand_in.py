"""A model of two megabytes that is published like the real ones: a release, wheels, and a package for npm."""

import base64
import gzip
import hashlib
import io
import json
import random
import struct
import tarfile
import zipfile
from pathlib import Path
from typing import cast

import msgspec

from myna.engines.models.published import Model, ModelFile, Package, Packages, Piece, Release, ReleaseFile

_random = random.Random(7)
MODEL = _random.randbytes(1_500_001)
VOICES = {name: _random.randbytes(200_000) for name in ("zf_one", "am_two")}
HALF = 750_000
WHEELS = ("stand-in-part-1", "stand-in-part-2")
VERSION = "1.2.1"


def _sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _voice_pieces(name: str) -> tuple[Piece, ...]:
    path = f"voices/{name}.bin"
    return Piece(f"{name}.bin", path, 200_000), Piece(f"{name}.npy", path, 200_000, tail=True)


TINY = Model(
    name="tiny",
    kind="2 voices",
    licence="Apache-2.0",
    languages=("zh", "en"),
    files=(
        ModelFile("model.onnx", len(MODEL), _sha(MODEL)),
        *(ModelFile(f"voices/{name}.bin", len(data), _sha(data)) for name, data in VOICES.items()),
    ),
    pieces=(
        Piece("model.onnx", "model.onnx", len(MODEL)),
        Piece("model-v1.onnx", "model.onnx", len(MODEL)),
        Piece("stand_in_part_1/part.bin", "model.onnx", HALF),
        Piece("stand_in_part_2/part.bin", "model.onnx", len(MODEL) - HALF, HALF),
        *(piece for name in VOICES for piece in _voice_pieces(name)),
    ),
    archives=("voices-v1.bin",),
    next_step="use it",
    release=Release(
        "https://localhost:1/files/",
        (ReleaseFile("model-v1.onnx", len(MODEL)), ReleaseFile("voices-v1.bin", 400_000)),
    ),
    packages=Packages(
        tuple(Package(name, "0.1.0", HALF) for name in WHEELS), Package("stand-in-js", VERSION, 400_000)
    ),
)


def at(url: str) -> Model:
    """The model with its release at this address."""
    release = cast(Release, TINY.release)
    return msgspec.structs.replace(TINY, release=msgspec.structs.replace(release, url=url))


def contents(folder: Path) -> dict[str, bytes]:
    """All files of a folder by their paths."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()
    }


INSTALLED = {"model.onnx": MODEL, **{f"voices/{name}.bin": data for name, data in VOICES.items()}}
"""What the folder of the model contains."""


def npz(voices: dict[str, bytes] = VOICES) -> bytes:
    """The voices as numpy's archive: each an array with a header of 128 bytes."""
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as out:
        for name, data in {"jf_unused": bytes(200_000), **voices}.items():
            about = "{'descr': '<f4', 'fortran_order': False, 'shape': (50, 1, 1000), }".ljust(117) + "\n"
            header = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(about)) + about.encode()
            out.writestr(f"{name}.npy", header + data)
    return archive.getvalue()


def release() -> dict[str, bytes]:
    """The files of the release by their paths on the server."""
    return {"/files/model-v1.onnx": MODEL, "/files/voices-v1.bin": npz()}


def wheels(folder: Path) -> Path:
    """A folder with the wheels."""
    folder.mkdir(parents=True, exist_ok=True)
    for number, part in enumerate((MODEL[:HALF], MODEL[HALF:]), 1):
        wheel(folder, WHEELS[number - 1], "0.1.0", {f"stand_in_part_{number}/part.bin": part})
    return folder


def wheel(folder: Path, name: str, version: str, files: dict[str, bytes]) -> None:
    """Writes a wheel. Files in a folder `bin` are executable."""
    stem = f"{name.replace('-', '_')}-{version}"
    meta = {
        f"{stem}.dist-info/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n".encode(),
        f"{stem}.dist-info/WHEEL": b"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = "".join(f"{path},,\n" for path in (*files, *meta, f"{stem}.dist-info/RECORD"))
    with zipfile.ZipFile(folder / f"{stem}-py3-none-any.whl", "w") as archive:
        for path, data in {**files, **meta, f"{stem}.dist-info/RECORD": record.encode()}.items():
            info = zipfile.ZipInfo(path)
            info.external_attr = (0o100755 if "/bin/" in path else 0o100644) << 16
            archive.writestr(info, data)


def tarball(voices: dict[str, bytes] = VOICES) -> bytes:
    """The package for npm."""
    about = json.dumps({"name": "stand-in-js", "version": VERSION}).encode()
    files = {"package/package.json": about} | {f"package/voices/{n}.bin": data for n, data in voices.items()}
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for path, data in files.items():
            info = tarfile.TarInfo(path)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return gzip.compress(packed.getvalue(), 1, mtime=0)


def npm_registry(url: str) -> dict[str, bytes]:
    """What a registry at this address answers for the package, by path."""
    packed = tarball()
    dist = {
        "tarball": f"{url}stand-in-js/-/stand-in-js-{VERSION}.tgz",
        "shasum": hashlib.sha1(packed).hexdigest(),  # noqa: S324  the registry's format
        "integrity": "sha512-" + base64.b64encode(hashlib.sha512(packed).digest()).decode(),
    }
    version = {"name": "stand-in-js", "version": VERSION, "dist": dist}
    about = {"name": "stand-in-js", "dist-tags": {"latest": VERSION}, "versions": {VERSION: version}}
    return {"/stand-in-js": json.dumps(about).encode(), f"/stand-in-js/-/stand-in-js-{VERSION}.tgz": packed}

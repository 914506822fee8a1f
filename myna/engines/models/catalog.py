"""What a published model consists of, which of its files a folder has, and how a fetch says where it is."""

import stat
from pathlib import Path
from typing import Final, Protocol

from msgspec import Struct

from myna.errors import CommandError

FOLDER: Final = "models"
"""The folder of the models, in the data folder."""


class ModelFile(Struct, frozen=True):
    """A file of a model. `path` is relative to the model's folder."""

    path: str
    size_bytes: int
    sha256: str


class Piece(Struct, frozen=True):
    """Which bytes of a source's file belong in a file of the model.

    `name` is the end of the path in the source; an archive counts as a folder. `file` is the path in the
    model, of which these are `size_bytes` from `offset_bytes` on. With `tail` they are the last bytes of the
    source's file, whose header is skipped; otherwise the source's file has exactly this size.
    """

    name: str
    file: str
    size_bytes: int
    offset_bytes: int = 0
    tail: bool = False


class ReleaseFile(Struct, frozen=True):
    """A file of a release, with its approximate size."""

    name: str
    size_bytes: int


class Release(Struct, frozen=True):
    """Files that are published by https. `url` ends with a slash."""

    url: str
    files: tuple[ReleaseFile, ...]


class Package(Struct, frozen=True):
    """A package of one version and the size of its archive."""

    name: str
    version: str
    size_bytes: int


class Packages(Struct, frozen=True):
    """Packages that contain the model: wheels for pip, and one package for npm where these lack files."""

    wheels: tuple[Package, ...]
    npm: Package | None = None


class Model(Struct, frozen=True):
    """A published model. `archives` are the names of zip archives that have another suffix. `next_step` is
    what the operator does when it is installed. Without a `release` there are only the packages."""

    name: str
    kind: str
    licence: str
    languages: tuple[str, ...]
    files: tuple[ModelFile, ...]
    pieces: tuple[Piece, ...]
    archives: tuple[str, ...]
    next_step: str
    packages: Packages
    release: Release | None = None

    @property
    def size_bytes(self) -> int:
        return sum(file.size_bytes for file in self.files)


def folder_of(data_folder: Path, name: str) -> Path:
    """The folder of an installed model."""
    return data_folder / FOLDER / name


def missing(model: Model, folder: Path) -> list[str]:
    """The files that `folder` lacks or has in another size. Contents are not read."""
    return [file.path for file in model.files if _size(folder / file.path) != file.size_bytes]


def _size(path: Path) -> int:
    """In bytes; -1 if there is no such file, or none that may be read."""
    try:
        status = path.stat()
    except OSError:
        return -1
    return status.st_size if stat.S_ISREG(status.st_mode) else -1


class SourceFailed(CommandError):
    """A source lacks the files or has different ones. Another source may have them."""


class Report(Protocol):
    """Shows the progress of a command."""

    def say(self, line: str) -> None:
        """Prints a line."""

    def begin(self, what: str, size_bytes: int) -> None:
        """A new step begins, of this size. It replaces the step before it."""

    def advance(self, size_bytes: int) -> None:
        """So much more of the step is done."""

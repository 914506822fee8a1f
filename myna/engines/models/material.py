"""Cuts the files of a model out of what a source delivered: a file, a folder, or archives in it.

A name in an archive is only compared with the names of the pieces; it never becomes a path.
"""

import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import IO, Final, NamedTuple

from myna.engines.models.progress import Report
from myna.engines.models.published import Model, ModelFile, Piece, SourceFailed

_ENTRIES_MAX: Final = 20_000
_CHUNK_BYTES: Final = 1 << 20
_ZIP_SUFFIXES: Final = (".zip", ".whl", ".npz")
_TAR_SUFFIXES: Final = (".tgz", ".tar.gz", ".tar")
_ENCRYPTED: Final = 1
"""The bit of a member's flags."""
_HEADER_MAX_BYTES: Final = 4096
_DAMAGED: Final = (zipfile.BadZipFile, tarfile.TarError, zlib.error, EOFError, NotImplementedError)


class _Entry(NamedTuple):
    """A file of a source; `file` is read by its block alone."""

    path: str
    size_bytes: int
    file: IO[bytes]


def assemble(model: Model, source: Path, folder: Path, report: Report) -> None:
    """Writes the files of the model to `folder` from those of `source`, a file or a folder. Stops at the last
    one that is needed. Raises SourceFailed if a file is not there or an archive is damaged, OSError."""
    work = _Assembly(model, folder, report)
    report.begin(f"copying {model.name}", model.size_bytes)
    for number, entry in enumerate(_entries(source, model.archives)):
        if number >= _ENTRIES_MAX:
            raise SourceFailed(_too_many(source))
        try:
            work.add(entry)
        except _DAMAGED as error:
            raise _damaged(entry.path, error) from None
        if work.complete():
            return
    raise SourceFailed(f"{source} doesn't have all of {model.name}: {work.lacking()}.")


class _Assembly:
    """The files of a model while their pieces are found."""

    def __init__(self, model: Model, folder: Path, report: Report) -> None:
        self._model, self._folder, self._report = model, folder, report
        self._found: dict[str, set[Piece]] = {file.path: set() for file in model.files}
        self._open = dict(zip(self._found, model.files, strict=True))
        self._other_size: dict[str, str] = {}

    def add(self, entry: _Entry) -> None:
        """Copies the entry if it is a piece of a file that is not complete yet."""
        for piece in self._model.pieces:
            if piece.file not in self._open or not f"/{entry.path}".endswith(f"/{piece.name}"):
                continue
            header_bytes = entry.size_bytes - piece.size_bytes
            if not 0 <= header_bytes <= (_HEADER_MAX_BYTES if piece.tail else 0):
                self._other_size[piece.file] = f"{entry.path} has {entry.size_bytes} bytes"
                continue
            self._copy(entry, piece)
            self._found[piece.file].add(piece)
            if _covered(self._open[piece.file], self._found[piece.file]):
                del self._open[piece.file]
            return

    def complete(self) -> bool:
        return not self._open

    def lacking(self) -> str:
        """A file that is not complete, and how many more there are."""
        path, file = next(iter(self._open.items()))
        hint = self._other_size.get(path, "")
        more = f" and {len(self._open) - 1} more" if len(self._open) > 1 else ""
        return f"{path} ({file.size_bytes} bytes){more} missing{f'; {hint}' if hint else ''}"

    def _copy(self, entry: _Entry, piece: Piece) -> None:
        path = self._folder / piece.file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
        _skip(entry.file, entry.size_bytes - piece.size_bytes)
        with path.open("r+b") as out:
            out.seek(piece.offset_bytes)
            left = piece.size_bytes
            while left and (chunk := entry.file.read(min(left, _CHUNK_BYTES))):
                out.write(chunk)
                left -= len(chunk)
                self._report.advance(len(chunk))
        if left:
            raise EOFError(f"{entry.path} ends early")


def _covered(file: ModelFile, found: set[Piece]) -> bool:
    """Whether one piece is the whole file, or the others are it together."""
    sizes = [piece.size_bytes for piece in found]
    return file.size_bytes in sizes or sum(sizes) == file.size_bytes


def _entries(source: Path, archives: tuple[str, ...]) -> Iterator[_Entry]:
    """All files of a file or folder, in the order of their names, and those of the archives among them."""
    paths = [source] if source.is_file() else list(islice(source.rglob("*"), _ENTRIES_MAX + 1))
    if len(paths) > _ENTRIES_MAX:
        raise SourceFailed(_too_many(source))
    for path in sorted(paths):
        if path.is_file():
            name = path.name if path == source else path.relative_to(source).as_posix()
            with path.open("rb") as file:
                yield from _unpacked(_Entry(name, path.stat().st_size, file), archives)


def _unpacked(entry: _Entry, archives: tuple[str, ...]) -> Iterator[_Entry]:
    """The files of an archive, or else the entry. Raises SourceFailed for an archive that is damaged."""
    name = entry.path.rpartition("/")[2]
    try:
        if name.endswith(_ZIP_SUFFIXES) or name in archives:
            yield from _unzipped(entry, archives)
        elif name.endswith(_TAR_SUFFIXES):
            with tarfile.open(fileobj=entry.file, mode="r|*") as tar:
                for member in tar:
                    if member.isfile() and (file := tar.extractfile(member)):
                        yield _Entry(f"{entry.path}/{member.name}", member.size, file)
        else:
            yield entry
    except _DAMAGED as error:
        raise _damaged(entry.path, error) from None


def _unzipped(entry: _Entry, archives: tuple[str, ...]) -> Iterator[_Entry]:
    with zipfile.ZipFile(entry.file) as archive:
        for info in archive.infolist():
            if not info.is_dir() and not info.flag_bits & _ENCRYPTED:
                with archive.open(info) as member:
                    inner = _Entry(f"{entry.path}/{info.filename}", info.file_size, member)
                    yield from _unpacked(inner, archives)


def _skip(file: IO[bytes], size_bytes: int) -> None:
    while size_bytes and (chunk := file.read(min(size_bytes, _CHUNK_BYTES))):
        size_bytes -= len(chunk)


def _too_many(source: Path) -> str:
    return f"{source} has over {_ENTRIES_MAX} files, too many to search."


def _damaged(path: str, error: Exception) -> SourceFailed:
    reason = " ".join(str(error).split()) or type(error).__name__
    return SourceFailed(f"{path} is damaged or cut short ({reason}).")

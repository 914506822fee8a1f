"""The file of a backup: a tar whose last member vouches for all before it.

    myna-backup.json            what made it: `Header`
    rows/TABLE/NUMBER.jsonl.gz  a page of a table: a line with the names of its columns, then a line a row
    audio/ab/NAME, samples/ab/NAME
    manifest.json               how much there must be, and the SHA-256 of it: `Manifest`

Written and read from one end to the other, with one page of rows or one block of a file in memory. A row is a
JSON array; bytes are in base64.
"""

import contextlib
import gzip
import hashlib
import io
import os
import re
import secrets
import tarfile
import time
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self, TypeVar

import msgspec
from msgspec import Struct

from myna.errors import CommandError
from myna.files.fsync import remove, sync_folder

FORMAT = 1
HEADER, MANIFEST = "myna-backup.json", "manifest.json"
FILES = re.compile(r"(audio|samples)/([0-9a-f]{2})/(\2[0-9a-f]{30}\.(?:mp3|wav))")
S = TypeVar("S", bound=Struct)
_ROWS = re.compile(r"rows/([a-z_]+)/[0-9]{9}\.jsonl\.gz")
NO_BACKUP = "is no backup of Myna"
_BLOCK_BYTES = 2**18
_FILE_MODE = 0o600
_COMPRESSION = 3


class Header(Struct, frozen=True):
    """What made the archive: its format, Myna's version, the schema's, and when (Unix seconds)."""

    format: int
    version: str
    schema: int
    created_at: int


class Manifest(Struct, frozen=True):
    """Rows by table, the last id that each table gave, how many files are here, and how many of those that
    rows name are not; the SHA-256 over names, sizes and contents of all members before. `left_out` are the
    kinds of files, `audio` or `samples`, that were not to be here."""

    tables: dict[str, int]
    counters: dict[str, int]
    files: int
    missing: int
    sha256: str
    left_out: list[str] = []


class Page(Struct, frozen=True):
    """Some rows of a table."""

    table: str
    columns: list[str]
    rows: list[list[Any]]


class ArchiveBroken(CommandError):
    """The file is no whole backup."""


class _Hashing(io.RawIOBase):
    """Reads from a file, and adds what was read to a hash."""

    def __init__(self, file: IO[bytes], hashed: "hashlib._Hash") -> None:
        self._file = file
        self._hashed = hashed

    def read(self, size: int = -1) -> bytes:
        data = self._file.read(size)
        self._hashed.update(data)
        return data


class ArchiveWriter:
    """Writes beside `path` and takes its place when it is whole; on any error nothing is left. Whoever reads
    `path` needs to be its owner. Raises CommandError where it can't be written, or is there already and not
    to be replaced."""

    def __init__(self, path: Path, *, replace: bool) -> None:
        self._path = path
        self._replace = replace
        self._part = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
        self._hashed = hashlib.sha256()
        self._pages: dict[str, int] = {}
        self.files = 0

    def __enter__(self) -> Self:
        self._check_free()
        try:
            handle = os.open(self._part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _FILE_MODE)
        except OSError as error:
            raise CommandError(f"{self._path} can't be written: {error.strerror}.") from None
        self._file = os.fdopen(handle, "wb")
        self._tar = tarfile.open(fileobj=self._file, mode="w", format=tarfile.USTAR_FORMAT)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with contextlib.suppress(OSError):  # of a disk that is full: the error that ended it is on its way
            self._file.close()
        remove(self._part)
        if isinstance(error, OSError) and error.filename is None:
            raise CommandError(f"{self._path} can't be written: {error.strerror}.") from None

    def add(self, name: str, data: bytes) -> None:
        """A member."""
        self._add(name, io.BytesIO(data), len(data))

    def add_page(self, page: Page) -> None:
        """A member with these rows."""
        number = self._pages[page.table] = self._pages.get(page.table, 0) + 1
        lines = msgspec.json.Encoder().encode_lines([page.columns, *page.rows])
        self.add(f"rows/{page.table}/{number:09}.jsonl.gz", gzip.compress(lines, _COMPRESSION, mtime=0))

    def add_file(self, folder: str, name: str, source: Path) -> None:
        """A finished file, which is as long as it is now. Raises FileNotFoundError."""
        with source.open("rb") as file:
            self._add(f"{folder}/{name[:2]}/{name}", file, os.fstat(file.fileno()).st_size)
        self.files += 1

    def finish(
        self, tables: dict[str, int], counters: dict[str, int], missing: int, left_out: list[str]
    ) -> Manifest:
        """Adds the manifest; from here on the archive is at its path, also after a loss of power."""
        manifest = Manifest(
            tables=tables,
            counters=counters,
            files=self.files,
            missing=missing,
            sha256=self._hashed.hexdigest(),
            left_out=left_out,
        )
        self.add(MANIFEST, msgspec.json.encode(manifest))
        self._tar.close()
        self._file.flush()
        os.fsync(self._file.fileno())
        self._check_free()
        self._part.replace(self._path)
        sync_folder(self._path.parent)
        return manifest

    def _add(self, name: str, content: IO[bytes], size: int) -> None:
        member = tarfile.TarInfo(name)
        member.size = size
        member.mode = _FILE_MODE
        member.mtime = int(time.time())
        self._hashed.update(_named(name, size))
        self._tar.addfile(member, _Hashing(content, self._hashed))

    def _check_free(self) -> None:
        if not self._replace and self._path.exists():
            raise CommandError(f"{self._path} is there already: --force replaces it.")


class ArchiveReader:
    """Reads an archive once, and knows at its end whether it was whole. Raises ArchiveBroken."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._hashed = hashlib.sha256()
        self.manifest: Manifest | None = None

    def __enter__(self) -> Self:
        try:
            self._file = self._path.open("rb")
        except OSError as error:
            raise CommandError(f"{self._path} can't be read: {error.strerror}.") from None
        try:
            self._tar = tarfile.open(fileobj=self._file, mode="r|")
            self._members = iter(self._tar)
            self.header = self._read_header()
        except tarfile.TarError:
            self._file.close()
            raise self._broken(NO_BACKUP) from None
        except BaseException:
            self._file.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._tar.close()
        self._file.close()

    def members(self) -> Iterator[Page | tuple[re.Match[str], Iterator[bytes]]]:
        """Pages of rows; files as the match of FILES and their bytes, to be read before the next one is asked
        for. Behind the last one `manifest` is there and right."""
        while member := self._next():
            if member.name == MANIFEST:
                self._end(member)
                return
            if rows := _ROWS.fullmatch(member.name):
                yield _page(rows[1], b"".join(self._content(member)))
            elif named := FILES.fullmatch(member.name):
                yield named, self._content(member)
            else:
                raise self._broken()
        raise self._broken()

    def _end(self, member: tarfile.TarInfo) -> None:
        found = self._hashed.hexdigest()
        self.manifest = self._decoded(member, Manifest)
        if self.manifest.sha256 != found:
            raise self._broken()

    def _read_header(self) -> Header:
        member = self._next()
        if member is None or member.name != HEADER:
            raise self._broken(NO_BACKUP)
        header = self._decoded(member, Header)
        if header.format != FORMAT:
            raise self._broken(f"has format {header.format}, which this Myna doesn't know")
        return header

    def _decoded(self, member: tarfile.TarInfo, kind: type[S]) -> S:
        try:
            return msgspec.json.decode(b"".join(self._content(member)), type=kind)
        except msgspec.DecodeError:
            raise self._broken() from None

    def _next(self) -> tarfile.TarInfo | None:
        try:
            return next(self._members, None)
        except (tarfile.TarError, EOFError, OSError):
            raise self._broken() from None

    def _content(self, member: tarfile.TarInfo) -> Iterator[bytes]:
        self._hashed.update(_named(member.name, member.size))
        left = member.size
        try:
            content = self._tar.extractfile(member)
            while left and content and (data := content.read(min(left, _BLOCK_BYTES))):
                self._hashed.update(data)
                left -= len(data)
                yield data
        except (tarfile.TarError, EOFError):
            raise self._broken() from None
        if left:
            raise self._broken()

    def _broken(self, why: str = "is cut short or was changed: it isn't the whole backup") -> ArchiveBroken:
        return ArchiveBroken(f"{self._path} {why}.")


def _named(name: str, size: int) -> bytes:
    return f"{name}\0{size}\0".encode()


def _page(table: str, compressed: bytes) -> Page:
    try:
        columns, *rows = msgspec.json.Decoder(list[Any]).decode_lines(gzip.decompress(compressed))
    except (OSError, EOFError, ValueError, gzip.zlib.error) as error:  # type: ignore[attr-defined]
        raise ArchiveBroken(f"A page of {table} can't be read: {type(error).__name__}.") from None
    return Page(table, [str(column) for column in columns], rows)

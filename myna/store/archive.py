"""The file of a backup: a tar whose last member has the checksum of all others.

    myna-backup.json            format and versions: `Header`
    rows/TABLE/NUMBER.jsonl.gz  a page of a table: a line with the names of its columns, then a line per row
    audio/ab/NAME, samples/ab/NAME
    manifest.json               the numbers of rows and files, and the SHA-256: `Manifest`

The archive is written and read sequentially, with one page of rows or one block of a file in memory. A row is
a JSON array; bytes are in base64.
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
from myna.lib.files import FILE_MODE, remove, sync_folder

FORMAT = 1
HEADER = "myna-backup.json"
MANIFEST = "manifest.json"
FILES = re.compile(r"(audio|samples)/([0-9a-f]{2})/(\2[0-9a-f]{30}\.(?:mp3|wav))")
S = TypeVar("S", bound=Struct)
_ROWS = re.compile(r"rows/([a-z_]+)/[0-9]{9}\.jsonl\.gz")
NO_BACKUP = "isn't a backup of Myna"
_BLOCK_BYTES = 2**18
_COMPRESSION = 3


class Header(Struct, frozen=True):
    """The archive's format, the versions of Myna and of the schema, and the time of the backup (Unix
    seconds)."""

    format: int
    version: str
    schema: int
    created_at: int


class Manifest(Struct, frozen=True):
    """The number of rows and the last generated id of each table, the number of files, and the number of
    files that rows name but that were missing. `sha256` is over the names, sizes and contents of all other
    members. `left_out` are the kinds of files, `audio` or `samples`, that the operator excluded."""

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
    """The file is not a complete, unchanged backup."""


class _HashingReader(io.RawIOBase):
    """Reads from a file and updates a hash with the data."""

    def __init__(self, file: IO[bytes], hashed: "hashlib._Hash") -> None:
        self._file = file
        self._hashed = hashed

    def read(self, size: int = -1) -> bytes:
        data = self._file.read(size)
        self._hashed.update(data)
        return data


class ArchiveWriter:
    """A context manager that writes an archive to a part file, which `finish` renames to `path`. On an error
    the part file is removed. Only the owner of the file can read it. Raises CommandError if the file can't be
    written, or exists and `replace` is false."""

    def __init__(self, path: Path, *, replace: bool) -> None:
        if path.is_dir():
            raise CommandError(f"{path} is a folder; name a file in it, such as {path / 'myna.tar'}.")
        self._path = path
        self._replace = replace
        self._part = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
        self._hashed = hashlib.sha256()
        self._pages: dict[str, int] = {}
        self.files = 0

    def __enter__(self) -> Self:
        self._check_free()
        try:
            handle = os.open(self._part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, FILE_MODE)
        except OSError as error:
            raise CommandError(f"{self._path} can't be written: {error.strerror}.") from None
        self._file = os.fdopen(handle, "wb")
        self._tar = tarfile.open(fileobj=self._file, mode="w", format=tarfile.USTAR_FORMAT)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with contextlib.suppress(OSError):  # a full disk: `error` is already being raised
            self._file.close()
        remove(self._part)
        if isinstance(error, OSError) and error.filename is None:
            raise CommandError(f"{self._path} can't be written: {error.strerror}.") from None

    def add(self, name: str, data: bytes) -> None:
        """Adds a member with this content."""
        self._add(name, io.BytesIO(data), len(data))

    def add_page(self, page: Page) -> None:
        """Adds a member with these rows."""
        number = self._pages[page.table] = self._pages.get(page.table, 0) + 1
        lines = msgspec.json.Encoder().encode_lines([page.columns, *page.rows])
        self.add(f"rows/{page.table}/{number:09}.jsonl.gz", gzip.compress(lines, _COMPRESSION, mtime=0))

    def add_file(self, folder: str, name: str, source: Path) -> None:
        """Adds a complete file, which must not change while it is added. Raises FileNotFoundError."""
        with source.open("rb") as file:
            self._add(f"{folder}/{name[:2]}/{name}", file, os.fstat(file.fileno()).st_size)
        self.files += 1

    def finish(
        self, tables: dict[str, int], counters: dict[str, int], missing: int, left_out: list[str]
    ) -> Manifest:
        """Adds the manifest and renames the archive to its path, durably."""
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
        member.mode = FILE_MODE
        member.mtime = int(time.time())
        self._hashed.update(_hashed_head(name, size))
        self._tar.addfile(member, _HashingReader(content, self._hashed))

    def _check_free(self) -> None:
        if not self._replace and self._path.exists():
            raise CommandError(f"{self._path} exists already: --force replaces it.")


class ArchiveReader:
    """Reads an archive once. Whether it is complete is known after the last member. Raises ArchiveBroken."""

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
        """Yields pages of rows, and files as the match of FILES and their blocks, which must be read before
        the next member. After the last member `manifest` is set and its checksum verified."""
        while member := self._next():
            if member.name == MANIFEST:
                self._verify(member)
                return
            if rows := _ROWS.fullmatch(member.name):
                yield _page(rows[1], b"".join(self._content(member)))
            elif named := FILES.fullmatch(member.name):
                yield named, self._content(member)
            else:
                raise self._broken()
        raise self._broken()

    def _verify(self, member: tarfile.TarInfo) -> None:
        found = self._hashed.hexdigest()  # before the manifest itself is hashed
        self.manifest = self._decoded(member, Manifest)
        if self.manifest.sha256 != found:
            raise self._broken()

    def _read_header(self) -> Header:
        member = self._next()
        if member is None or member.name != HEADER:
            raise self._broken(NO_BACKUP)
        header = self._decoded(member, Header)
        if header.format != FORMAT:
            raise self._broken(f"has format {header.format}, which this version of Myna can't read")
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
        self._hashed.update(_hashed_head(member.name, member.size))
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

    def _broken(self, why: str = "is truncated or was changed: it isn't a complete backup") -> ArchiveBroken:
        return ArchiveBroken(f"{self._path} {why}.")


def _hashed_head(name: str, size: int) -> bytes:
    """What is hashed before the content of a member."""
    return f"{name}\0{size}\0".encode()


def _page(table: str, compressed: bytes) -> Page:
    try:
        columns, *rows = msgspec.json.Decoder(list[Any]).decode_lines(gzip.decompress(compressed))
    except (OSError, EOFError, ValueError, gzip.zlib.error) as error:  # type: ignore[attr-defined]
        raise ArchiveBroken(f"A page of {table} can't be read: {type(error).__name__}.") from None
    return Page(table, [str(column) for column in columns], rows)

"""Reads multipart/form-data: fields into memory, one file into the spool folder.

The body arrives in parts of any size. A file is written to the page cache as it arrives, and is never in
memory as a whole.
"""

import hashlib
from functools import partial
from types import TracebackType
from typing import BinaryIO, Final, Self

from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header

from myna.errors import BodyTooLarge, InvalidRequest, ShuttingDown
from myna.gateway.transcripts import Upload
from myna.http.request import Request
from myna.lib.files import DiskExecutor, remove
from myna.store.files.named_files import Spool

SLOWEST_BYTES_PER_S: Final = 32 * 1024
"""Minimum average rate of an upload: a slower one would occupy its place for hours."""
FIELDS_MAX: Final = 100
FIELDS_MAX_BYTES: Final = 64 * 1024
_OVERHEAD_BYTES: Final = 2 * FIELDS_MAX_BYTES
"""Of a body around its file: fields, boundaries and headers."""
_NOT_MULTIPART: Final = (
    "The body must be multipart/form-data, with the recording in the field file; clients of OpenAI's API send"
    " it so."
)


class Form:
    """A form with a file of at most `file_max_bytes`: the values of its fields in the order in which they
    came, and its file. A context manager that removes the file."""

    def __init__(self, spool: Spool, disk: DiskExecutor, file_max_bytes: int) -> None:
        self.fields: list[tuple[str, str]] = []
        self.file: Upload | None = None
        self._path = spool.new()
        self._disk = disk
        self._file_max_bytes = file_max_bytes
        self._file_name: str | None = None
        self._file_bytes = 0
        self._sha256 = hashlib.sha256()
        self._media_type = ""
        self._fields_bytes = 0
        self._header = (bytearray(), bytearray())
        self._headers: dict[bytes, bytes] = {}
        self._name = ""
        self._value: bytearray | None = None  # None within the file
        self._complete = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._disk.clean_up(partial(remove, self._path))

    @property
    def fingerprint(self) -> bytes:
        """The same for forms of the same fields and file: a client sends another boundary with each retry."""
        digest = hashlib.sha256()
        for name, value in sorted(self.fields):
            for part in (name.encode(), value.encode()):
                digest.update(b"%d:%b" % (len(part), part))
        if self.file is not None:
            digest.update(self._sha256.digest() + self.file.name.encode())
        return digest.digest()

    async def read(self, request: Request) -> None:
        """Reads the body of the request. Raises InvalidRequest, BodyTooLarge, BodyTooSlow and ShuttingDown;
        the rest of the body is not read then."""
        if (request.declared_bytes or 0) > self._file_max_bytes + _OVERHEAD_BYTES:
            raise BodyTooLarge(self._file_max_bytes)
        with await self._disk.run_metadata(lambda: self._path.open("xb")) as out:
            kind, options = parse_options_header((request.header(b"content-type") or b"").decode("latin-1"))
            boundary = options.get(b"boundary")
            if kind != b"multipart/form-data" or not boundary:
                raise InvalidRequest(_NOT_MULTIPART)
            try:
                parser = self._parser(boundary, out)
            except FormParserError as error:
                raise _unreadable(error) from None
            await self._receive(request, parser)
            await self._disk.run(out.flush)
        if self._file_name is not None:
            self.file = Upload(
                path=self._path,
                name=self._file_name,
                media_type=self._media_type,
                size_bytes=self._file_bytes,
            )

    async def _receive(self, request: Request, parser: MultipartParser) -> None:
        """Parses the body to its end."""
        left_bytes = limit_bytes = self._file_max_bytes + _OVERHEAD_BYTES

        def parse(data: bytes, more: bool) -> None:
            nonlocal left_bytes
            left_bytes -= len(data)
            if more and request.stopping:
                raise ShuttingDown
            if left_bytes < 0:
                raise BodyTooLarge(limit_bytes)
            try:
                parser.write(data)
            except FormParserError as error:
                raise _unreadable(error) from None

        await request.receive(parse, SLOWEST_BYTES_PER_S)
        if not self._complete:
            raise InvalidRequest("The form ended early; send it whole.")

    def _parser(self, boundary: bytes, out: BinaryIO) -> MultipartParser:
        def part_data(data: bytes, start: int, end: int) -> None:
            self._add(data[start:end], out)

        return MultipartParser(
            boundary,
            {
                "on_part_begin": self._begin,
                "on_header_field": lambda data, start, end: self._header[0].extend(data[start:end]),
                "on_header_value": lambda data, start, end: self._header[1].extend(data[start:end]),
                "on_header_end": self._end_header,
                "on_headers_finished": self._end_headers,
                "on_part_data": part_data,
                "on_part_end": self._end,
                "on_end": self._finish,
            },
        )

    def _begin(self) -> None:
        self._headers = {}
        if len(self.fields) >= FIELDS_MAX:
            raise InvalidRequest(f"The form has over {FIELDS_MAX} fields; send fewer.")

    def _end_header(self) -> None:
        name, value = self._header
        self._headers[bytes(name).lower()] = bytes(value)
        self._header = (bytearray(), bytearray())

    def _end_headers(self) -> None:
        _, options = parse_options_header(self._headers.get(b"content-disposition", b"").decode("latin-1"))
        self._name = options.get(b"name", b"").decode("utf-8", "replace")
        file_name = options.get(b"filename")
        if file_name is None:
            if self._name == "file":
                raise InvalidRequest(
                    'this part has no file name; send one, such as filename="audio.wav".', field="file"
                )
            self._value = bytearray()
            return
        if self._name != "file" or self._file_name is not None:
            raise InvalidRequest("the form must have one file, in this field.", field="file")
        self._value = None
        self._file_name = file_name.decode("utf-8", "replace")
        self._media_type = self._headers.get(b"content-type", b"").decode("latin-1")

    def _add(self, part: bytes, out: BinaryIO) -> None:
        if self._value is not None:
            self._value += part
            self._count(len(part))
            return
        self._file_bytes += len(part)
        if self._file_bytes > self._file_max_bytes:
            raise BodyTooLarge(self._file_max_bytes)
        out.write(part)
        self._sha256.update(part)

    def _end(self) -> None:
        if self._value is None:
            return
        try:
            self.fields.append((self._name, self._value.decode()))
        except UnicodeDecodeError:
            raise InvalidRequest("is not valid UTF-8.", field=self._name[:40]) from None
        self._count(len(self._name))

    def _count(self, more_bytes: int) -> None:
        self._fields_bytes += more_bytes
        if self._fields_bytes > FIELDS_MAX_BYTES:
            raise InvalidRequest(f"The fields of the form have over {FIELDS_MAX_BYTES} bytes; send less.")

    def _finish(self) -> None:
        self._complete = True


def _unreadable(error: FormParserError) -> InvalidRequest:
    return InvalidRequest(f"The form can't be read: {str(error).rstrip('.')[:100]}.")

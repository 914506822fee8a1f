"""GET /uploads/NAME: finished audio, public by its address, and captions of it: NAME with the ending srt, vtt
or json. The content of a name never changes."""

import re
from collections.abc import AsyncIterator
from email.utils import formatdate, parsedate_to_datetime
from functools import partial

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response, StreamingResponse

from myna.errors import NotFound, RangeNotSatisfiable, StorageUnavailable, Unavailable
from myna.lib.files import DiskExecutor
from myna.speech.delivery import CAPTIONS, Captions
from myna.store.files.named_files import AudioStore

READ_BYTES = 256 * 1024
NO_FILE = "There is no such file."

_UNCHANGING = {
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "public, max-age=31536000, immutable",
}
_HEADERS = {**_UNCHANGING, "Accept-Ranges": "bytes"}
_RANGE = re.compile(r"bytes=[ \t]*([0-9]{0,4000})-([0-9]{0,4000})[ \t]*", re.IGNORECASE)
_ENTITY_TAG = re.compile(r'(?:W/)?("[^"]*")')


class UploadsApi:
    """Serves the files of the audio store, with single ranges and conditional requests (RFC 9110)."""

    def __init__(self, audio: AudioStore, redirect_s: int = 0) -> None:
        self._audio = audio
        self._redirect_s = redirect_s
        self._disk = DiskExecutor()

    async def file(self, request: Request) -> Response:
        name, captions = _named(request.path_params["name"])
        if self._disk.full():
            raise Unavailable("Too many disk reads are waiting; try again.")
        stored = await self._disk.run(partial(self._audio.stat, name))
        if stored is None:
            raise NotFound(NO_FILE)
        if captions is not None:
            media_type, written = captions
            words = await self._disk.run(partial(self._audio.words, name))
            if not words:
                raise NotFound("The times of this sound's words are not known.")
            return Response(written(words), headers=_UNCHANGING, media_type=media_type)
        # A page of the back office may load from its own origin only.
        # A signed address is for GET alone.
        redirects = self._redirect_s and request.method == "GET"
        if redirects and request.headers.get("sec-fetch-site") != "same-origin":
            address = await self._disk.run(partial(self._audio.signed, name, self._redirect_s))
            if address:
                return RedirectResponse(address, status_code=302, headers={"Cache-Control": "no-store"})
        changed = formatdate(stored.modified_s, usegmt=True)
        headers = {**_HEADERS, "ETag": f'"{name}"', "Last-Modified": changed}
        if _not_modified(request.headers, headers["ETag"], stored.modified_s):
            return Response(status_code=304, headers=headers)
        part = _byte_range(request.headers, headers, stored.size_bytes) if request.method == "GET" else None
        first, last = part or (0, stored.size_bytes - 1)
        headers["Content-Length"] = str(last + 1 - first)
        if part:
            headers["Content-Range"] = f"bytes {first}-{last}/{stored.size_bytes}"
        body: AsyncIterator[bytes] | tuple[()] = ()
        if request.method == "GET":
            begin = await self._read(name, first, last + 1)  # while the answer may still be an error
            body = self._bytes(name, begin, first + len(begin), last + 1)
        return StreamingResponse(
            body, status_code=206 if part else 200, headers=headers, media_type="audio/mpeg"
        )

    async def _bytes(self, name: str, data: bytes, first: int, end: int) -> AsyncIterator[bytes]:
        """Yields `data`, and the bytes from `first` up to `end`. If the file is removed during the download,
        the connection ends early."""
        yield data
        while first < end:
            data = await self._read(name, first, end)
            yield data
            first += len(data)

    async def _read(self, name: str, first: int, end: int) -> bytes:
        """The next bytes. The file is opened for each read, so a client that disconnects leaks none. Raises
        NotFound, EOFError if the file ends before `first`, StorageUnavailable."""
        count = min(READ_BYTES, end - first)
        try:
            data = await self._disk.run(partial(self._audio.read, name, first, count))
        except FileNotFoundError:
            raise NotFound(NO_FILE) from None
        except OSError as error:
            raise StorageUnavailable from error
        if count and not data:
            raise EOFError(f"{name} ends at {first}")
        return data


def _named(name: str) -> tuple[str, Captions | None]:
    """The name of the sound, and how its captions are written if the address is that of these."""
    stem, _, ending = name.rpartition(".")
    captions = CAPTIONS.get(ending)
    return (name, None) if captions is None else (f"{stem}.mp3", captions)


def _not_modified(request_headers: Headers, entity_tag: str, changed_s: float) -> bool:
    """Evaluates If-None-Match or, in its absence, If-Modified-Since (RFC 9110, 13.2.2)."""
    tags = request_headers.get("if-none-match")
    if tags is not None:
        return tags.strip() == "*" or entity_tag in _ENTITY_TAG.findall(tags)
    try:
        since_s = parsedate_to_datetime(request_headers.get("if-modified-since", "")).timestamp()
    except (ValueError, OverflowError):  # an invalid date is ignored
        return False
    return int(changed_s) <= since_s


def _byte_range(request_headers: Headers, headers: dict[str, str], size: int) -> tuple[int, int] | None:
    """The first and the last requested byte. None for the whole file: without a range, or if it is invalid,
    has several parts or is for another version (RFC 9110, 14.2). Raises RangeNotSatisfiable."""
    found = _RANGE.fullmatch(request_headers.get("range", ""))
    if found is None or request_headers.get("if-range", headers["ETag"]) not in (
        headers["ETag"],
        headers["Last-Modified"],
    ):
        return None
    first, last = (int(digits) if digits else None for digits in found.groups())
    if first is None:
        if last is None:
            return None
        first, last = max(0, size - last), None  # a suffix range
    elif last is not None and last < first:
        return None
    if first >= size:
        raise RangeNotSatisfiable(size)
    return first, size - 1 if last is None else min(last, size - 1)

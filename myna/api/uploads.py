"""GET /uploads/NAME: finished audio, for whoever knows its address. What a name stands for never changes."""

import asyncio
import os
import re
from email.utils import formatdate, parsedate_to_datetime
from pathlib import Path

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import FileResponse, Response

from myna.errors import NotFound, RangeNotSatisfiable
from myna.store.audio import AudioStore

_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "public, max-age=31536000, immutable",
    "Accept-Ranges": "bytes",
}
_RANGE = re.compile(r"bytes=[ \t]*([0-9]{0,4000})-([0-9]{0,4000})[ \t]*", re.IGNORECASE)
_ENTITY_TAG = re.compile(r'(?:W/)?("[^"]*")')


class UploadsApi:
    """Serves files of the audio store, with one range and by the conditions of RFC 9110; nothing else has a
    name here."""

    def __init__(self, audio: AudioStore) -> None:
        self._audio = audio

    async def file(self, request: Request) -> Response:
        name = request.path_params["name"]
        found = await asyncio.to_thread(_found, self._audio, name)
        if found is None:
            raise NotFound("There is no such file.")
        path, stat = found
        changed = formatdate(stat.st_mtime, usegmt=True)
        headers = {**_HEADERS, "ETag": f'"{name}"', "Last-Modified": changed}
        if _known(request.headers, headers["ETag"], stat.st_mtime):
            return Response(status_code=304, headers=headers)
        part = _part(request.headers, headers, stat.st_size) if request.method == "GET" else None
        _ask_for(request, part)
        return FileResponse(path, media_type="audio/mpeg", headers=headers, stat_result=stat)


def _found(audio: AudioStore, name: str) -> tuple[Path, os.stat_result] | None:
    """None also for a file that the cleaning has just removed."""
    path = audio.find(name)
    try:
        return (path, path.stat()) if path else None
    except FileNotFoundError:
        return None


def _known(asked: Headers, entity_tag: str, changed_s: float) -> bool:
    """The client has it: If-None-Match, and only without one If-Modified-Since (RFC 9110, 13.2.2)."""
    tags = asked.get("if-none-match")
    if tags is not None:
        return tags.strip() == "*" or entity_tag in _ENTITY_TAG.findall(tags)
    try:
        since_s = parsedate_to_datetime(asked.get("if-modified-since", "")).timestamp()
    except (ValueError, OverflowError):  # a date that is none is passed over
        return False
    return int(changed_s) <= since_s


def _part(asked: Headers, headers: dict[str, str], size: int) -> tuple[int, int] | None:
    """The first and the last byte wanted; None for the whole, also where the range makes no sense, has
    several parts, or is meant for another version (RFC 9110, 14.2). Raises RangeNotSatisfiable."""
    found = _RANGE.fullmatch(asked.get("range", ""))
    if found is None or asked.get("if-range", headers["ETag"]) not in (
        headers["ETag"],
        headers["Last-Modified"],
    ):
        return None
    first, last = (int(digits) if digits else None for digits in found.groups())
    if first is None:
        if last is None:
            return None
        first, last = max(0, size - last), None  # the last so many bytes
    elif last is not None and last < first:
        return None
    if first >= size:
        raise RangeNotSatisfiable(size)
    return first, size - 1 if last is None else min(last, size - 1)


def _ask_for(request: Request, part: tuple[int, int] | None) -> None:
    """Leaves only this part in the request's headers: the framework, which serves it, is less lenient."""
    headers = [header for header in request.scope["headers"] if header[0] not in (b"range", b"if-range")]
    if part is not None:
        headers.append((b"range", b"bytes=%d-%d" % part))
    request.scope["headers"] = headers

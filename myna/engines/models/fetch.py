"""Downloads a file by https, and resumes one that was interrupted.

For the command line alone: a serving process downloads nothing. Proxies are those of the environment
(`HTTPS_PROXY`, `NO_PROXY`), certificates those of the system or of `SSL_CERT_FILE`.
"""

import http.client
import re
import ssl
from collections.abc import Iterator
from http import HTTPStatus
from pathlib import Path
from typing import IO, Any, Final
from urllib.error import HTTPError, URLError
from urllib.request import HTTPRedirectHandler, HTTPSHandler, OpenerDirector, Request, build_opener

from myna import __version__
from myna.engines.models.catalog import Report, SourceFailed

IDLE_S: Final = 30.0
"""How long a server may send nothing."""
TRIES: Final = 3
"""How often a download is resumed without a new byte."""
_CHUNK_BYTES: Final = 1 << 18
_SLACK: Final = 2
"""A file may be so many times as large as the catalog says."""
_CONTENT_RANGE: Final = re.compile(r"bytes (\d+)-\d+/(\d+)")


class _Interrupted(Exception):
    """The connection broke, or the server sent less or other bytes than it was asked for."""


class _Restart(_Interrupted):
    """What was received before can't be continued."""


class _HttpsOnly(HTTPRedirectHandler):
    """Follows redirects to https alone."""

    def redirect_request(
        self, req: Request, fp: IO[bytes], code: int, msg: str, headers: Any, newurl: str
    ) -> Request | None:
        if not newurl.startswith("https://"):
            fp.close()
            raise SourceFailed(f"{_host(req.full_url)} redirects to an address that isn't https.")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def download(url: str, path: Path, size_bytes: int, report: Report) -> None:
    """Downloads `url` to `path`, resuming `path` with the suffix `.part`, which an error leaves.

    `size_bytes` is approximate; a file of over twice the size is refused. The content is not checked. Raises
    SourceFailed, and OSError for what can't be written.
    """
    report.begin(path.name, size_bytes)
    if path.exists():
        report.advance(path.stat().st_size)
        return
    part = path.with_name(f"{path.name}.part")
    opener = build_opener(HTTPSHandler(context=ssl.create_default_context()), _HttpsOnly)
    report.advance(_size(part))
    tries = TRIES
    while True:
        before = _size(part)
        try:
            _append(opener, url, part, size_bytes * _SLACK, report)
            break
        except _Interrupted as interruption:
            tries = TRIES if _size(part) > before else tries - 1
            if isinstance(interruption, _Restart):
                part.unlink(missing_ok=True)
                report.advance(-before)
            if not tries:
                raise SourceFailed(
                    f"{_host(url)}: {interruption}. The next try continues {path.name} where this one"
                    " stopped."
                ) from None
    part.replace(path)


def _append(opener: OpenerDirector, url: str, part: Path, size_max: int, report: Report) -> None:
    """Requests the bytes after those of `part`, and appends them. Raises _Interrupted if there are more."""
    have = _size(part)
    opened = _opened(opener, url, have)
    if opened is None:
        return
    with opened as response:
        start, total = _extent(response, have)
        if total > size_max:
            raise SourceFailed(f"{_host(url)}: the file has {total} bytes, which is not the published one.")
        if start != have:
            report.advance(-have)
        with part.open("ab") as file:
            file.truncate(start)
            have = start
            for chunk in _chunks(response):
                file.write(chunk)
                have += len(chunk)
                report.advance(len(chunk))
                if have > size_max:
                    raise SourceFailed(f"{_host(url)}: the file is longer than the published one.")
    if have < total:
        raise _Interrupted(f"the connection ended after {have} of {total} bytes")


def _extent(response: http.client.HTTPResponse, have: int) -> tuple[int, int]:
    """Where the answer's bytes begin in the file, and the size of the file; 0 if it is not stated."""
    if response.status == HTTPStatus.PARTIAL_CONTENT:
        found = _CONTENT_RANGE.fullmatch(response.headers.get("Content-Range", ""))
        if not found or int(found[1]) != have:
            raise _Restart("the server sent another range than it was asked for")
        return have, int(found[2])
    length = response.headers.get("Content-Length", "")
    return 0, int(length) if length.isdecimal() else 0


def _opened(opener: OpenerDirector, url: str, have: int) -> http.client.HTTPResponse | None:
    """The response with the bytes from `have` on; None if the file has no more. Raises _Interrupted and
    SourceFailed."""
    headers = {"User-Agent": f"myna/{__version__}"} | ({"Range": f"bytes={have}-"} if have else {})
    try:
        response: http.client.HTTPResponse = opener.open(Request(url, headers=headers), timeout=IDLE_S)  # noqa: S310
    except HTTPError as error:
        error.close()
        if error.code == HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
            if error.headers.get("Content-Range") == f"bytes */{have}":
                return None
            raise _Restart("the server no longer has the part that is missing") from None
        raise SourceFailed(f"{_host(url)} answers {error.code} ({error.reason}) for {url}.") from None
    except URLError as error:
        raise SourceFailed(f"{_host(url)} can't be reached: {_reason(error.reason)}.") from None
    except (http.client.HTTPException, OSError) as error:
        raise _Interrupted(f"the connection broke ({_reason(error)})") from None
    return response


def _chunks(response: http.client.HTTPResponse) -> Iterator[bytes]:
    """The body. Raises _Interrupted, so that an OSError of the caller is one of the disk."""
    try:
        while chunk := response.read(_CHUNK_BYTES):
            yield chunk
    except (http.client.HTTPException, OSError) as error:
        raise _Interrupted(f"the connection broke ({_reason(error)})") from None


def _reason(error: object) -> str:
    if isinstance(error, TimeoutError):
        return "no answer in time"
    text = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return " ".join(text.split())


def _host(url: str) -> str:
    return url.split("/")[2]


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0

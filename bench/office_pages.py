"""`python -m bench.office_pages DATABASE [ROWS]`: times every page of the back office while the API is busy.

A server on `sqlite` or `postgresql` has a million calls, half of them of the account that reads the pages and
is an operator. 8 connections send chat calls without a pause, and the pages are read in turn for half a
minute; the first reading of each is included. Prints the median and the worst in ms, and the calls with and
without the pages.
"""

import http.client
import statistics
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlencode

from bench import contenders, load
from bench.fill import READER, Size
from bench.load import Target, Work
from bench.processes import CannotRun
from bench.table import set_up

ROWS = 1_000_000
CONNECTIONS = 8
LOAD_S = 30
TIMEOUT_S = 60
PASSWORD = "a long pass phrase of the reader"
PAGES = (
    "", "/keys", "/keys/1", "/records", "/usage", "/usage?by=hour", "/usage?days=365", "/ledger", "/voices",
    "/try", "/me", "/site/accounts", "/site/accounts/1", "/site/codes", "/site/channels", "/site/routes",
    "/site/nodes", "/site/voices", "/site/models", "/site/calls", "/site/calls?state=refunded",
    "/site/calls?account=bench-1", "/site/settings", "/site/health", "/site/activity",
)  # fmt: skip


class Answer(NamedTuple):
    """A page that was read: how long it took from the request to its last byte, in ms, and its size."""

    status: int
    ms: float
    size_bytes: int


class Visitor:
    """A browser without images and scripts: a new connection for each page, and the cookie of the session."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._cookies: dict[str, str] = {}

    def sign_in(self) -> None:
        """Raises CannotRun."""
        form = {"name": f"bench-{READER}", "password": PASSWORD}
        answer = self._send("POST", "/sign-in", urlencode(form))
        if answer.status != http.client.SEE_OTHER:
            raise CannotRun(f"the sign-in was answered with {answer.status}")

    def read(self, page: str) -> Answer:
        return self._send("GET", page, None)

    def _send(self, method: str, path: str, form: str | None) -> Answer:
        origin = f"http://127.0.0.1:{self._port}"
        headers = {
            "Cookie": "; ".join(f"{name}={value}" for name, value in self._cookies.items()),
            "Origin": origin,
            "Sec-Fetch-Site": "same-origin",
            "Content-Type": "application/x-www-form-urlencoded",
        }
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=TIMEOUT_S)
        try:
            began = time.perf_counter()
            connection.request(method, "/office" + path, form, headers)
            response = connection.getresponse()
            size_bytes = len(response.read())
            ms = (time.perf_counter() - began) * 1000
        finally:
            connection.close()
        for name, value in response.getheaders():
            if name.lower() == "set-cookie":
                cookie, _, rest = value.partition("=")
                self._cookies[cookie] = rest.partition(";")[0]
        return Answer(response.status, ms, size_bytes)


def read_all(visitor: Visitor, until: float) -> dict[str, list[Answer]]:
    """The readings of each page until that time. Raises CannotRun if one is not answered with 200."""
    found: dict[str, list[Answer]] = {page: [] for page in PAGES}
    while time.monotonic() < until:
        for page, answers in found.items():
            answer = visitor.read(page)
            if answer.status != http.client.OK:
                raise CannotRun(f"/office{page} was answered with {answer.status}")
            answers.append(answer)
    return found


def measure(target: Target) -> None:
    visitor = Visitor(target.port)
    target.program.resume()
    visitor.sign_in()
    alone = load.one_round(target, CONNECTIONS, LOAD_S)
    running = load.Running(target, CONNECTIONS, LOAD_S)
    found = read_all(visitor, time.monotonic() + LOAD_S)
    beside = running.figures()
    print(f"calls/s and p99 in ms, alone: {alone.calls_s:,.0f}, {alone.p99_ms:.1f}")
    pages_s = sum(map(len, found.values())) / LOAD_S
    print(f"the same beside {pages_s:.0f} pages/s: {beside.calls_s:,.0f}, {beside.p99_ms:.1f}")
    print(f"{len(found[''])} readings of each page, median and worst in ms, size:")
    for page, answers in sorted(found.items(), key=lambda item: -_median_ms(item[1])):
        worst_ms, size_kb = max(answer.ms for answer in answers), answers[-1].size_bytes / 1000
        print(f"  /office{page:28} {_median_ms(answers):7.1f} {worst_ms:7.1f} {size_kb:6.1f} kB")


def _median_ms(answers: list[Answer]) -> float:
    return statistics.median(answer.ms for answer in answers)


def main(name: str, rows: int) -> None:
    on_postgresql = name == "postgresql"
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="myna-office-pages-")))
        setup = set_up(stack, folder, postgresql=on_postgresql)
        size = Size(rows=rows, password=PASSWORD)
        work = Work(keys=size.keys)
        server = contenders.myna("pages", setup, work, size=size, on_postgresql=on_postgresql)
        measure(stack.enter_context(server))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else ROWS)

"""The pages of an account with 100,000 rows don't keep the event loop from other calls."""

import asyncio
from collections.abc import Awaitable
from types import SimpleNamespace
from typing import cast

import pytest
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Message

from myna.accounts import accounts
from myna.accounts.sign_in.sessions import Session
from myna.config import SiteSettings
from myna.office.pages import reports
from myna.office.render import Renderer
from myna.office.visit import Parts, Visit
from myna.office.web_security import Cookies
from myna.settings import Settings
from tests.http.cpu_time import BLOCKED_MAX, busiest_s, cpu_s, reference
from tests.store.books import Books, Customer

ROWS, KEYS, DAYS = 100_000, 280, 358
NUMBERS = "WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < $1 - 1)"
AT = 1_740_787_200_000
"""2025-03-01 00:00 UTC, in ms."""


@pytest.fixture
async def customer(damaged_books: Books) -> Customer:
    """An account with ROWS entries of a month and as many rows of usage in a year."""
    books = damaged_books
    made = await books.customer()
    call_id = "decode(lpad(i::text, 32, '0'), 'hex')" if books.url else "CAST(printf('%016d', i) AS BLOB)"
    await books.sql(
        f"{NUMBERS} INSERT INTO entries (account_id, at, call_id, kind, key_id, units, number, balance,"
        " charged, refunded, redeemed)"
        f" SELECT $2, {AT} + i, {call_id}, 0, 1, -1, i + 1, 0, i + 1, 0, 0 FROM n",
        ROWS, made.account_id,
    )  # fmt: skip
    await books.sql(
        f"{NUMBERS} INSERT INTO usage_days (account_id, day, key_id, kind, calls, ok_calls, units, ms)"
        f" SELECT $2, now_ms() / 86400000 - 2 - i / {KEYS}, i % {KEYS} + 1, 1, 1, 1, 2, 3 FROM n",
        ROWS, made.account_id,
    )  # fmt: skip
    return made


async def visit_of(books: Books, customer: Customer) -> Visit:
    """A request of the account's pages, on these books."""
    query = b"month=2025-03&period=365d"
    request = Request({"type": "http", "path": "", "query_string": query, "headers": []})
    config = SimpleNamespace(settings=SiteSettings())
    parts = SimpleNamespace(db=books.db, config=config, settings=Settings())
    session = Session(
        id=1,
        token_hash=b"",
        account=await accounts.find(books.db, customer.name),
        created_at=0,
        seen_at=0,
        verified_at=0,
        stepped_up=False,
        second_factor=False,
        language="en",
    )
    return Visit(request, cast(Parts, parts), Renderer("en"), Cookies(https=False), session)


async def received(response: Awaitable[Response]) -> bytes:
    """The body."""
    parts: list[bytes] = []

    async def send(message: Message) -> None:
        parts.append(message.get("body", b""))

    async def receive() -> Message:
        await asyncio.Event().wait()
        raise AssertionError

    await (await response)({"type": "http"}, receive, send)
    return b"".join(parts)


async def test_the_loop_runs_on_for_an_account_of_many_rows(damaged_books: Books, customer: Customer) -> None:
    visit = await visit_of(damaged_books, customer)
    await reports.show_usage(visit)  # compiles the template, once in a process
    for page, line, lines in (
        (reports.download_ledger, b"\r\n", ROWS + 1),
        (reports.download_usage, b"\r\n", ROWS + 1),
        (reports.show_usage, b"<tr><td>", KEYS),
    ):
        body = asyncio.ensure_future(received(page(visit)))
        busiest = await busiest_s(body)
        assert (await body).count(line) == lines
        assert busiest < BLOCKED_MAX * cpu_s(reference, None), page

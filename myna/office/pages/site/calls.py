"""Calls of all accounts, by request id, call id or account."""

from functools import partial

from msgspec import Struct
from starlette.responses import Response

from myna.billing import reports
from myna.billing.reports import LedgerFilter
from myna.errors import NotFound
from myna.lib.ids import first_of, millis_of
from myna.office.page import Page, Who
from myna.office.pages.calls import call_page, state_of
from myna.office.visit import CALL_ID, Visit
from myna.store.batch import EntryKind
from myna.store.database import Queries
from myna.store.queries import accounts as accounts_store
from myna.store.queries import history
from myna.store.queries.history import PAST_ALL, CallRow

ROWS = 50
BEFORE_REQUEST_MS = 60_000
AFTER_REQUEST_MS = 600_000
"""A call is charged this long after its request began at most, and before it if the clocks differ."""
DAY_MS = 86_400_000
DAYS_MAX = 366


class Found(Struct, frozen=True):
    """Calls, newest first; `before` is what the next page takes, "" at the end. `days` is how far back was
    searched, 0 for all the way."""

    rows: list[CallRow]
    before: str = ""
    days: int = 0


async def show(visit: Visit) -> Response:
    """The calls that match what was typed: a request's or call's id, or the name of an account."""
    wanted = visit.parameter("q").strip()[:300]
    before = visit.parameter("before")
    found = await _find(visit, wanted, before) if wanted else Found([])
    return visit.page("site/calls.html", found=found, q=wanted, first=not before, state_of=state_of)


async def _find(visit: Visit, wanted: str, before: str) -> Found:
    if account := await visit.read(partial(accounts_store.by_name, name=wanted)):
        return await _of_account(visit, account.id, before)
    text = wanted.replace("-", "").lower()
    if not CALL_ID.fullmatch(text):
        return await _of_request(visit, wanted)
    call = await visit.read(partial(history.call, call_id=bytes.fromhex(text)))
    return Found(call) if call else await _of_request(visit, text)


async def _of_account(visit: Visit, account_id: int, before: str) -> Found:
    """By the ledger, which has an index by account."""
    page = await reports.ledger_page(visit.db, account_id, LedgerFilter(kind=EntryKind.CHARGE), before, ROWS)

    async def read(connection: Queries) -> list[CallRow]:
        found = [await history.call(connection, entry.call_id) for entry in page.entries]
        return [row for rows in found for row in rows]

    return Found(await visit.read(read), page.before)


async def _of_request(visit: Visit, request_id: str) -> Found:
    """The id that the service makes contains its time; for another one the last `days` days are searched."""
    days, after, past = 0, b"", PAST_ALL
    if CALL_ID.fullmatch(request_id) and request_id[12] == "7":
        at = millis_of(bytes.fromhex(request_id))
        after, past = first_of(max(0, at - BEFORE_REQUEST_MS)), first_of(at + AFTER_REQUEST_MS)
    else:
        text = visit.parameter("days", "1")
        days = min(int(text), DAYS_MAX) if text.isascii() and text.isdecimal() and len(text) < 5 else 1
        after = first_of(visit.now_ms - days * DAY_MS)
    query = partial(history.calls_of_request, request_id=request_id, before=past, limit=ROWS, after=after)
    return Found(await visit.read(query), days=days)


async def show_one(visit: Visit) -> Response:
    """A call of any account."""
    call_id = visit.call_id()
    found = await visit.read(partial(history.call, call_id=call_id))
    if not found:
        raise NotFound("There is no such call.")
    owner = await visit.read(partial(accounts_store.by_name, name=found[0].account))
    if owner is None:
        raise NotFound("There is no such call.")
    return await call_page(visit, found[0], owner.id, text_shown=False)


PAGES = [
    Page(path="/site/calls", show=show, who=Who.OPERATOR),
    Page(path="/site/calls/{id}", show=show_one, who=Who.OPERATOR),
]

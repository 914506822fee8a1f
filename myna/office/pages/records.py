"""Speech records: listen, search, download, delete. And one call: what happened to it, in time, and why it
was refunded or has an incomplete answer, in words. For operators, the calls of all accounts, by request id,
call id or account.
"""

import asyncio
from functools import partial

from msgspec import Struct
from starlette.responses import Response

from myna.accounts import activity
from myna.accounts.keys import Scope
from myna.actions.media import DeleteRecords
from myna.billing import reports
from myna.billing.reports import LedgerFilter
from myna.engines.interface import WordTime
from myna.errors import (
    ClientDisconnected,
    CommandError,
    InvalidRequest,
    NotFound,
    Overloaded,
    RequestRefused,
    StorageUnavailable,
    StreamFailed,
    StreamUnread,
    UpstreamFailed,
)
from myna.lib.ids import first_of, millis_of
from myna.office.page import Page
from myna.office.render import N_
from myna.office.visit import CALL_ID, Visit
from myna.speech.synthesize import status_text
from myna.store.batch import CallState, EntryKind, TaskStatus
from myna.store.database import Queries
from myna.store.files.named_files import AudioStore
from myna.store.queries import accounts as accounts_store
from myna.store.queries import keys
from myna.store.queries import reports as reports_store
from myna.store.queries import tasks as store
from myna.store.queries.reports import CALL_ID_MAX, CallEntry, CallRow
from myna.store.queries.tasks import RecordRow

PAGE_ROWS = 50
SEARCHED_ROWS = 5_000
"""How many records one page searches: it must be quick for accounts with a million of them."""
TASK_STATES = {
    "completed": (TaskStatus.COMPLETED, N_("completed")),
    "queued": (TaskStatus.QUEUED, N_("queued")),
    "processing": (TaskStatus.PROCESSING, N_("processing")),
    "failed": (TaskStatus.FAILED, N_("failed")),
}


class Row(Struct, frozen=True):
    """A record as the page shows it."""

    record: RecordRow
    status: str
    finished: bool


class Deletion(Struct):
    """Which records to delete. `sure` is set by the page that asks."""

    id: list[str]
    sure: str = ""


async def show_records(visit: Visit) -> Response:
    """A page of records."""
    state = visit.parameter("state")
    text = visit.parameter("q").strip()[:200]
    voice = visit.parameter("voice")[:200]
    found = await visit.read(
        store.search,
        account_id=visit.account.id,
        before=visit.row_id("before"),
        limit=PAGE_ROWS,
        scan=SEARCHED_ROWS,
        status=int(TASK_STATES[state][0]) if state in TASK_STATES else -1,
        text=text,
        voice_id=voice,
    )
    return visit.page(
        "records.html",
        rows=[row_of(visit, record) for record in found.rows],
        searched_to=found.searched_to,
        states=[(name, label) for name, (_, label) in TASK_STATES.items()],
        state=state,
        q=text,
        voice=voice,
        filtered=bool(state or text or voice),
    )


def row_of(visit: Visit, record: RecordRow) -> Row:
    """The record with its status as the API says it."""
    finished = record.status in (TaskStatus.COMPLETED, TaskStatus.FAILED)
    return Row(record=record, status=status_text(record, visit.renderer.language), finished=finished)


async def delete_records(visit: Visit) -> Response:
    """Asks first, then deletes."""
    form = visit.fields(Deletion)
    ids = [int(text) for text in form.id if text.isascii() and text.isdecimal() and len(text) <= 16]
    if not ids:
        raise CommandError(N_("Select the records to delete."))
    action = DeleteRecords(account=visit.account.name, ids=tuple(ids))
    if not form.sure:
        return visit.page("record_delete.html", ids=ids, command_words=action.words)
    count = await visit.perform(action, own=True)
    return visit.redirect(
        "/records", visit.counted("{count} record deleted.", N_("{count} records deleted."), count)
    )


CANCELLED = N_("the request was cancelled")
PHRASES = {
    ClientDisconnected.__name__: N_("the client disconnected"),
    InvalidRequest.__name__: N_("the request could not be answered"),
    Overloaded.__name__: N_("no channel had a place for it"),
    RequestRefused.__name__: N_("the channels refused the request"),
    StreamFailed.__name__: N_("the channel broke off its answer"),
    StreamUnread.__name__: N_("the client did not read it in time"),
    UpstreamFailed.__name__: N_("no channel could answer"),
    "CancelledError": CANCELLED,
    "the caller stopped waiting": CANCELLED,
    "left open": N_("the service was interrupted"),
    "not done in time": N_("it was not done in time"),
    "no compute node finished it": N_("no compute node finished it"),
    "the voice was deleted": N_("the voice was deleted"),
}
OTHERWISE = N_("another error, which the operator can see")
STATES = {
    CallState.OPEN: N_("open"),
    CallState.KEPT: N_("delivered"),
    CallState.REFUNDED: N_("refunded"),
}
WORDS_MAX = 5_000
INCOMPLETE = N_("incomplete")


def phrase(visit: Visit, reason: str) -> str:
    """The reason in the language of the page. Another one is shown to operators as it is stored, since it may
    be the message of a compute node."""
    if reason in PHRASES:
        return visit.text(PHRASES[reason])
    return visit.renderer.stored(reason) if visit.account.operator else visit.text(OTHERWISE)


class Event(Struct, frozen=True):
    """A moment of the call. `units` is None where none moved; `after_ms` counts from the charge."""

    what: str
    at: int
    after_ms: int
    units: int | None
    detail: str


async def show_own(visit: Visit) -> Response:
    """The call's timeline, its key, its record."""
    call_id = visit.call_id()
    call = await visit.read(reports_store.call_of_account, account_id=visit.account.id, call_id=call_id)
    if call is None:
        raise NotFound("There is no such call.")
    return await call_page(visit, call, visit.account.id)


async def call_page(visit: Visit, call: CallRow, account_id: int, *, text_shown: bool = True) -> Response:
    """The page of a call of this account. An operator does not see the text of other people's records."""
    entries = await visit.read(reports_store.entries_of_call, call_id=call.id)
    record = await visit.read(store.record, account_id=account_id, call_id=call.id)
    key = await visit.read(keys.of_account_by_id, account_id=account_id, key_id=call.key_id)
    row = row_of(visit, record) if record and text_shown else None
    audio = row.record.audio if row else ""
    return visit.page(
        "call.html",
        call=call,
        key=key,
        rate=visit.text(N_("speech") if call.pays & Scope.TTS else N_("chat")),
        state=visit.text(state_of(call)),
        events=_events(visit, call, entries),
        row=row,
        words=await asyncio.to_thread(_words, visit.parts.audio, audio) if audio else [],
        command_words=activity.words("calls", call=call.id.hex()),
    )


def _words(audio: AudioStore, name: str) -> list[WordTime]:
    """The words of a record with their times, if these are known."""
    try:
        return audio.words(name)[:WORDS_MAX]
    except (OSError, StorageUnavailable):
        return []


def state_of(call: CallRow) -> str:
    """The state of a call in English. A kept one with an incomplete answer has a reason."""
    is_incomplete = call.state == CallState.KEPT and call.reason
    return INCOMPLETE if is_incomplete else STATES[CallState(call.state)]


def _events(visit: Visit, call: CallRow, entries: list[CallEntry]) -> list[Event]:
    events: list[Event] = []
    why = phrase(visit, call.reason) if call.reason else ""

    def add(what: str, at: int, units: int | None = None, detail: str = "") -> None:
        said = visit.text(what).format(why=why)
        events.append(Event(said, at, at - call.created_at, units, detail))

    add(N_("Received and charged"), call.created_at, entries[0].units if entries else -call.units)
    channel = call.channel
    if call.state == CallState.KEPT:
        if channel:
            add(N_("Answered by a channel"), call.ended_at, detail=channel)
        if why:
            add(N_("The answer is incomplete: {why}"), call.ended_at)
        add(N_("The units are kept") if why else N_("Delivered: the units are kept"), call.ended_at)
    elif call.state == CallState.REFUNDED:
        if channel:
            add(N_("Failed; the last channel tried"), call.ended_at, detail=channel)
        refund = next((entry for entry in entries if entry.kind == EntryKind.REFUND), None)
        what = N_("Refunded: {why}") if why else N_("Refunded")
        add(what, call.ended_at, refund.units if refund else None)
    else:
        add(N_("Open; refunded at the latest"), call.deadline)
    return events


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


async def search(visit: Visit) -> Response:
    """The calls that match what was typed: a request's or call's id, or the name of an account."""
    wanted = visit.parameter("q").strip()[:300]
    found = await _find(visit, wanted, visit.parameter("before")) if wanted else Found([])
    return visit.page("site/calls.html", found=found, q=wanted, state_of=state_of)


async def _find(visit: Visit, wanted: str, before: str) -> Found:
    if account := await visit.read(accounts_store.by_name, name=wanted):
        return await _of_account(visit, account.id, before)
    text = wanted.replace("-", "").lower()
    if not CALL_ID.fullmatch(text):
        return await _of_request(visit, wanted)
    call = await visit.read(reports_store.call, call_id=bytes.fromhex(text))
    return Found(call) if call else await _of_request(visit, text)


async def _of_account(visit: Visit, account_id: int, before: str) -> Found:
    """By the ledger, which has an index by account."""
    charges = LedgerFilter(kind=EntryKind.CHARGE)
    newest = partial(reports.ledger_page, account_id=account_id, only=charges, before=before, limit=ROWS)
    page = await visit.read(newest)

    async def read(connection: Queries) -> list[CallRow]:
        found = [await reports_store.call(connection, entry.call_id) for entry in page.entries]
        return [row for rows in found for row in rows]

    return Found(await visit.read(read), page.before)


async def _of_request(visit: Visit, request_id: str) -> Found:
    """The id that the service makes contains its time; for another one the last `days` days are searched."""
    days, after, past = 0, b"", CALL_ID_MAX
    if CALL_ID.fullmatch(request_id) and request_id[12] == "7":
        at = millis_of(bytes.fromhex(request_id))
        after, past = first_of(max(0, at - BEFORE_REQUEST_MS)), first_of(at + AFTER_REQUEST_MS)
    else:
        text = visit.parameter("days", "1")
        days = min(int(text), DAYS_MAX) if text.isascii() and text.isdecimal() and len(text) < 5 else 1
        after = first_of(visit.now_ms - days * DAY_MS)
    rows = await visit.read(
        reports_store.calls_of_request, request_id=request_id, before=past, limit=ROWS, after=after
    )
    return Found(rows, days=days)


async def show_any(visit: Visit) -> Response:
    """A call of any account."""
    call_id = visit.call_id()
    found = await visit.read(reports_store.call, call_id=call_id)
    if not found:
        raise NotFound("There is no such call.")
    owner = await visit.read(accounts_store.by_name, name=found[0].account)
    if owner is None:
        raise NotFound("There is no such call.")
    return await call_page(visit, found[0], owner.id, text_shown=False)


PAGES = [
    Page("/records", show=show_records),
    Page("/records/delete", submit=delete_records),
    Page("/calls/{id}", show=show_own),
    Page("/site/calls", show=search),
    Page("/site/calls/{id}", show=show_any),
]

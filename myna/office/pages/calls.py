"""One call: what happened to it, in time, and why it was refunded or has an incomplete answer, in words."""

import asyncio
from functools import partial

from msgspec import Struct
from starlette.responses import Response

from myna.accounts import activity
from myna.accounts.keys import Scope
from myna.engines.interface import WordTime
from myna.errors import (
    ClientDisconnected,
    InvalidRequest,
    NotFound,
    RequestRefused,
    StorageUnavailable,
    StreamFailed,
    StreamUnread,
    UpstreamFailed,
)
from myna.office.messages import N_
from myna.office.page import Page
from myna.office.pages.records import row_of
from myna.office.visit import Visit
from myna.store.batch import CallState, EntryKind
from myna.store.files.named_files import AudioStore
from myna.store.queries import history, keys
from myna.store.queries import tasks as tasks_store
from myna.store.queries.history import CallEntry, CallRow

CANCELLED = N_("the request was cancelled")
PHRASES = {
    ClientDisconnected.__name__: N_("the client disconnected"),
    InvalidRequest.__name__: N_("the request could not be answered"),
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


async def show(visit: Visit) -> Response:
    """The call's timeline, its key, its record."""
    call_id = visit.call_id()
    call = await visit.read(partial(history.call_of_account, account_id=visit.account.id, call_id=call_id))
    if call is None:
        raise NotFound("There is no such call.")
    return await call_page(visit, call, visit.account.id)


async def call_page(visit: Visit, call: CallRow, account_id: int, *, text_shown: bool = True) -> Response:
    """The page of a call of this account. An operator does not see the text of other people's records."""
    entries = await visit.read(partial(history.entries_of_call, call_id=call.id))
    record = await visit.read(partial(tasks_store.record, account_id=account_id, call_id=call.id))
    key = await visit.read(partial(keys.of_account_by_id, account_id=account_id, key_id=call.key_id))
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


PAGES = [Page(path="/calls/{id}", show=show)]

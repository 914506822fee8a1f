"""Speech records: listen, search, download, delete."""

from msgspec import Struct
from starlette.responses import Response

from myna.actions.media import DeleteRecords
from myna.errors import CommandError
from myna.office.messages import N_
from myna.office.page import Page
from myna.office.visit import Visit
from myna.speech.synthesize import status_text
from myna.store.batch import TaskStatus
from myna.store.queries import tasks as store
from myna.store.queries.tasks import RecordRow

PAGE_ROWS = 50
SEARCHED_ROWS = 5_000
"""How many records one page searches: it must be quick for accounts with a million of them."""
STATES = {
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


async def show(visit: Visit) -> Response:
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
        status=int(STATES[state][0]) if state in STATES else -1,
        text=text,
        voice_id=voice,
    )
    return visit.page(
        "records.html",
        rows=[row_of(visit, record) for record in found.rows],
        searched_to=found.searched_to,
        states=[(name, label) for name, (_, label) in STATES.items()],
        state=state,
        q=text,
        voice=voice,
        filtered=bool(state or text or voice),
        first=not visit.parameter("before"),
    )


def row_of(visit: Visit, record: RecordRow) -> Row:
    """The record with its status as the API says it."""
    finished = record.status in (TaskStatus.COMPLETED, TaskStatus.FAILED)
    return Row(record=record, status=status_text(record, visit.renderer.language), finished=finished)


async def delete(visit: Visit) -> Response:
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


PAGES = [Page("/records", show=show), Page("/records/delete", submit=delete)]

"""How a page is declared, also one that makes a change by an action, or a part of one that stays up to date.

Such a part is sent by server-sent events, and `Live` in office.js shows it. A stream ends with its session,
within a second. After another authentication, which replaces the session's token, the browser connects again
with the new one. One page has one stream at most: browsers open six connections to a site over HTTP/1.1.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any
from urllib.parse import quote

from markupsafe import Markup
from msgspec import Struct, structs
from starlette.convertors import IntegerConvertor, register_url_convertor
from starlette.responses import Response, StreamingResponse

from myna.accounts.sign_in import sessions
from myna.actions import Action
from myna.errors import Overloaded
from myna.lib.shares import Shares
from myna.office.forms import FORM_MAX_BYTES
from myna.office.visit import Visit
from myna.store.transaction_queue import transactions_of
from myna.wire.body import to_event

DIGITS_MAX = 19
Handler = Callable[[Visit], Awaitable[Response]]


class Number(IntegerConvertor):
    """A number of a path, with no more digits than an id of the database. One with more names no page."""

    regex = f"[0-9]{{1,{DIGITS_MAX}}}"


register_url_convertor("number", Number())


class Page(Struct, frozen=True):
    """A page below /office. `path` has Starlette's syntax, and `{id:number}`. Without `anyone` it needs a
    session.

    `recent`: its form is accepted only if the password was entered in the last ten minutes; otherwise the
    browser asks for it and sends the form again (ASVS 7.5). `secrets` are fields that no page repeats: they
    are entered again with the password.

    A form makes its change once, however often it is sent: see `forms.py`. `repeatable` says of a form
    for which that is not so why it may be sent again.
    """

    path: str
    show: Handler | None = None
    submit: Handler | None = None
    anyone: bool = False
    recent: bool = False
    secrets: tuple[str, ...] = ()
    repeatable: str = ""
    form_max_bytes: int = FORM_MAX_BYTES

    @property
    def is_for_operators(self) -> bool:
        """Decided by the address, so that no page of the site can be without the check."""
        return self.path.startswith(("/site/", "/start"))

    @property
    def methods(self) -> list[str]:
        return [name for name, handler in (("GET", self.show), ("POST", self.submit)) if handler]


def performs(
    kind: type[Action[Any]], to: str, notice: str = "", *, confirmed: bool = False, **given: object
) -> Handler:
    """The function of a form that makes this change, and then shows the page `to` with the notice. Both may
    have fields of the action. `confirmed`: the name must be typed again. `given` are fields that the form
    does not decide."""

    async def submit(visit: Visit) -> Response:
        action = visit.fields(kind, **given)
        if confirmed:
            visit.confirm(str(getattr(action, "name", "")))
        await visit.perform(action)
        values = structs.asdict(action)
        quoted = {name: quote(str(value), safe="") for name, value in values.items()}
        return visit.redirect(to.format(**quoted), notice, **values)

    return submit


Values = Mapping[str, Any]
INTERVAL_S = 1.0
"""Between two looks at the database."""
STREAM_MAX_S = 300.0
STREAMS_MAX = 200
"""Open streams of one process."""
STREAMS_OF_ACCOUNT_MAX = 20

_streams = Shares[int](
    STREAMS_MAX,
    STREAMS_OF_ACCOUNT_MAX,
    lambda: Overloaded("Too many pages are kept up to date at once; load this one again later.", 10),
)


def live_pages(path: str, template: str, values: Callable[[Visit], Awaitable[Values]]) -> tuple[Page, Page]:
    """A page of these values, and the one that keeps it up to date."""

    async def show(visit: Visit) -> Response:
        return visit.page(template, **await values(visit))

    return Page(path, show=show), live_page(path, template, values)


def live_page(path: str, template: str, values: Callable[[Visit], Awaitable[Values]]) -> Page:
    """The page that sends the block `live` of a template as server-sent events: each time that it has
    changed, until its values are `final`."""

    async def follow(visit: Visit) -> Response:
        with _streams.place(visit.account.id):
            first = await values(visit)  # its errors, as that there is no place, are answered by a page
        events = _events(visit, template, values, first)
        return StreamingResponse(events, headers={"X-Accel-Buffering": "no"}, media_type="text/event-stream")

    return Page(f"{path}/live", show=follow)


async def _events(
    visit: Visit, template: str, values: Callable[[Visit], Awaitable[Values]], found: Values
) -> AsyncIterator[bytes]:
    with _streams.place(visit.account.id):
        until = time.monotonic() + STREAM_MAX_S
        shown = Markup("")
        while time.monotonic() < until and not visit.exchange.stopping:
            if visit.session is None or not await sessions.is_open(visit.db, visit.session):
                return
            part = visit.part(template, **found)
            if part != shown:
                shown = part
                yield to_event(str(shown), "content")
            if found.get("final"):
                yield to_event("", "end")
                return
            await asyncio.sleep(INTERVAL_S)
            with transactions_of(visit.owner):
                found = await values(visit)

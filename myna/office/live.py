"""Parts of pages that stay up to date, by server-sent events. `Live` in office.js shows them.

A stream ends with its session, within a second. After another authentication, which replaces the session's
token, the browser connects again with the new one. One page has one stream at most: browsers open six
connections to a site over HTTP/1.1.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any

import msgspec
from markupsafe import Markup
from starlette.responses import Response, StreamingResponse

from myna.accounts.sign_in import sessions
from myna.errors import Overloaded
from myna.http.asgi_types import stopping
from myna.lib.shares import Shares
from myna.office.page import Page
from myna.office.visit import Visit
from myna.store.transaction_queue import transactions_of

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
_json = msgspec.json.Encoder()


def page(path: str, template: str, values: Callable[[Visit], Awaitable[Values]]) -> Page:
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
        while time.monotonic() < until and not stopping(visit.request.scope):
            if visit.session is None or not await sessions.is_open(visit.db, visit.session):
                return
            part = visit.part(template, **found)
            if part != shown:
                shown = part
                yield _event("content", str(shown))
            if found.get("final"):
                yield _event("end", "")
                return
            await asyncio.sleep(INTERVAL_S)
            with transactions_of(visit.owner):
                found = await values(visit)


def _event(name: str, text: str) -> bytes:
    return b"event: %s\ndata: %s\n\n" % (name.encode(), _json.encode(text))

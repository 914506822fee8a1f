"""Making a key: the form, and the page that shows the plain key once.

A line under a new key waits for the first request, and says when it came or why it was refused.
"""

import time
from functools import partial

from msgspec import structs
from starlette.responses import Response

from myna.accounts.keys import Issued, Scope
from myna.actions.keys import IssueKey
from myna.billing import reports
from myna.billing.reports import DAY_MS, HOURS_MAX_DAYS, Usage
from myna.lib.times import HOUR_MS
from myna.office.client_lines import client_lines
from myna.office.limit_form import PERIODS, CapFields, LimitFields, of_site, routes_of_site
from myna.office.live import Part
from myna.office.messages import N_
from myna.office.page import Page
from myna.office.visit import Visit
from myna.store.queries import keys as store
from myna.store.queries.keys import KeyRow, Refusal

WITHOUT_KEY_MAX_MS = 600_000
"""A request without a valid key is shown for this long: it may be another person's at the same address."""
LIVES = (
    ("", N_("never expires")),
    ("7d", N_("after 7 days")),
    ("30d", N_("after 30 days")),
    ("90d", N_("after 90 days")),
    ("365d", N_("after a year")),
)
"""The durations that the form offers."""


async def first_request(visit: Visit, key: KeyRow) -> Part:
    """The line as it is now. It is final once a request has succeeded."""
    used = (await visit.read(partial(store.usage_of, key_ids=[key.id])))[key.id]
    refusal = None if used.ok_calls else await _refusal(visit, key)
    ended = await _ended(visit, key) if used.ok_calls else Usage()
    html = visit.part("first_request.html", key=key, used=used, ended=ended, refusal=refusal)
    return Part(html, final=used.ok_calls > 0)


async def _ended(visit: Visit, key: KeyRow) -> Usage:
    """The calls of the key that ended since it was made, at most in the last days that have hours."""
    start = max(key.created_at - HOUR_MS, visit.now_ms - (HOURS_MAX_DAYS - 1) * DAY_MS)
    end = time.time_ns() // 10**6 + HOUR_MS
    rows = await reports.usage_by_hour(visit.db, visit.account.id, start, end, key.id)
    return reports.total(row.usage for row in rows)


async def _refusal(visit: Visit, key: KeyRow) -> Refusal | None:
    """The latest refused request of this key, or one from the visitor's address without a valid key since
    this key was made."""
    of_key = await visit.read(partial(store.last_refusal, account_id=visit.account.id, key_id=key.id))
    without_key = visit.parts.refusals.without_key(visit.address)
    oldest = max(key.created_at, visit.now_ms - WITHOUT_KEY_MAX_MS, of_key.at if of_key else 0)
    return without_key if without_key and without_key.at > oldest else of_key


async def show(visit: Visit) -> Response:
    """The form, with all scopes but `records` checked."""
    example = IssueKey(account=visit.account.name, name="NAME", scope=("chat", "tts"))
    return visit.page(
        "key_new.html",
        form=example,
        cap_form=CapFields(),
        limit_form=LimitFields(),
        limit_defaults=await of_site(visit),
        lives=LIVES,
        periods=PERIODS,
        routes=await routes_of_site(visit, ()),
        command_words=example.words,
    )


async def submit(visit: Visit) -> Response:
    """Makes the key and shows it."""
    cap, name = visit.fields(CapFields).text, visit.typed("name")
    action = visit.fields(IssueKey, account=visit.account.name, name=name, cap=cap)
    return await made(visit, await visit.perform(structs.replace(action, route=action.route or None)))


async def made(visit: Visit, issued: Issued, old: KeyRow | None = None, old_expires_at: int = 0) -> Response:
    """The page of a key that was made just now, in place of `old` if given, which expires then (Unix s)."""
    key = await store.of_account_by_id(visit.db, visit.account.id, issued.id)
    if key is None:
        raise AssertionError("keys are never deleted")
    page = visit.page(
        "key_made.html",
        key=key,
        plain=issued.key,
        scopes=issued.scopes,
        lines=client_lines(visit.base_url, issued.key, Scope(key.scopes)),
        waiting=(await first_request(visit, key)).html,
        old=old,
        old_expires_at=old_expires_at * 1000,
    )
    return visit.result(f"/keys/{key.id}", page)


PAGES = [Page(path="/keys/new", show=show, submit=submit)]

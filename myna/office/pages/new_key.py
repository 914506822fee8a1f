"""Making a key: the form, and the page that shows the plain key once."""

from msgspec import structs
from starlette.responses import Response

from myna.accounts.keys import Issued, Scope
from myna.actions.keys import IssueKey
from myna.office.cap_form import PERIODS, CapFields
from myna.office.client_lines import client_lines
from myna.office.first_request import first_request
from myna.office.limit_form import LimitFields, of_site, routes_of_site
from myna.office.messages import N_
from myna.office.page import Page
from myna.office.visit import Visit
from myna.store.queries import keys as store
from myna.store.queries.keys import KeyRow

LIVES = (
    ("", N_("never expires")),
    ("7d", N_("after 7 days")),
    ("30d", N_("after 30 days")),
    ("90d", N_("after 90 days")),
    ("365d", N_("after a year")),
)
"""The durations that the form offers."""


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

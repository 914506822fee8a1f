"""Making a key: the form, and the page that shows the plain key once."""

from msgspec import field
from starlette.responses import Response

from myna import activity, durations, keys
from myna.errors import CommandError
from myna.keys import Issued, Scope
from myna.office.cap_form import PERIODS, CapFields
from myna.office.client_lines import client_lines
from myna.office.first_request import first_request
from myna.office.limit_form import LimitFields, given, of_site, routes_of_site
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


class NewKey(CapFields):
    """The form."""

    name: str = ""
    scope: list[str] = field(default_factory=list)
    expires_in: str = ""


async def show(visit: Visit) -> Response:
    """The form, with all scopes but `records` checked."""
    return await _form(visit, NewKey(scope=["chat", "tts"]), LimitFields())


async def submit(visit: Visit) -> Response:
    """Makes the key and shows it."""
    form, limits = visit.fields(NewKey), visit.fields(LimitFields)
    try:
        life_ms = durations.millis(form.expires_in) if form.expires_in else 0
        scopes = keys.scopes_of(form.scope)
        issued = await keys.issue(
            visit.db,
            visit.account.id,
            form.name,
            scopes,
            life_ms,
            by=visit.actor,
            cap=form.cap(),
            routes=limits.route or None,
            limits={name: value for name, value in given(limits).items() if value is not None},
        )
    except CommandError as error:
        return await _form(visit, form, limits, visit.said(error))
    return await made(visit, issued)


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


async def _form(visit: Visit, form: NewKey, limits: LimitFields, error: str = "") -> Response:
    command = activity.words(
        *("key", "issue", visit.account.name),
        name=form.name or "NAME",
        scope=form.scope,
        expires_in=form.expires_in or None,
        cap=form.text or None,
        route=limits.route,
        rpm=limits.rpm or None,
        concurrent=limits.concurrent or None,
        units_per_day=limits.units_per_day or None,
    )
    return visit.page(
        "key_new.html",
        status=400 if error else 200,
        form=form,
        limit_form=limits,
        limit_defaults=await of_site(visit),
        lives=LIVES,
        periods=PERIODS,
        routes=await routes_of_site(visit, limits.route),
        command_words=command,
        error=error,
    )


PAGES = [Page(path="/keys/new", show=show, submit=submit)]

"""The keys of an account: made, shown once, listed, changed, revoked.

A line under a new key waits for the first request, and says when it came or why it was refused.
"""

import time
from collections.abc import Collection, Mapping
from functools import partial

from markupsafe import Markup
from msgspec import Struct, field, structs
from starlette.responses import Response

from myna.accounts import caps, keys, limits
from myna.accounts.caps import Period
from myna.accounts.keys import Issued, Scope
from myna.accounts.limits import DEFAULT
from myna.actions.keys import (
    NO_CAP,
    IssueKey,
    LimitKey,
    RenameKey,
    RevokeKey,
    RollKey,
    SetKeyCap,
    SetKeyRoutes,
)
from myna.billing import reports
from myna.billing.reports import DAY_MS, HOURS_MAX_DAYS, Usage
from myna.channels.routes import TRANSCRIPTION_ROUTE, Route, listed
from myna.errors import NotFound
from myna.lib.times import HOUR_MS, day_of
from myna.office.charts import small_bars
from myna.office.client_lines import PLACEHOLDER, client_lines
from myna.office.page import Page, Values, live_page
from myna.office.render import N_
from myna.office.visit import Visit
from myna.store.batch import NO_LIMITS
from myna.store.queries import config as config_store
from myna.store.queries import keys as store
from myna.store.queries import reports as reports_store
from myna.store.queries.keys import OF_ACCOUNT, CapRow, KeyRow, KeyUsage, Refusal

PAGE_ROWS = 100
GRACES = (("7d", N_("a week")), ("1d", N_("a day")), ("1h", N_("an hour")), ("1s", N_("a second")))
"""How long a key works after it was replaced, as the form offers it."""


class Row(Struct, frozen=True):
    """A line of the table."""

    key: KeyRow
    state: str
    scopes: list[str]
    used: KeyUsage
    cap: CapRow | None
    cap_used: int
    last_used_at: int
    spark: Markup


async def show(visit: Visit) -> Response:
    """The account's keys, newest first."""
    before = visit.row_id("before")
    account_id = visit.account.id
    found = await visit.read(store.page, account_id=account_id, before=before, limit=PAGE_ROWS + 1)
    used = await visit.read(store.usage_of, key_ids=[key.id for key in found])
    capped = {row.key_id: row for row in await visit.read(store.caps_of_account, account_id=account_id)}
    last_used = await visit.read(reports_store.last_used, account_id=account_id)
    today = day_of(visit.time_zone, visit.now_ms)
    days = await reports.sparklines(visit.read, account_id, today)
    top = max((day.units for one in days.values() for day in one), default=0)
    rows = [
        Row(
            key=key,
            state=keys.state(key, visit.now_ms),
            scopes=Scope(key.scopes).names,
            used=used[key.id],
            cap=(cap := capped.get(key.id)),
            cap_used=caps.used(cap, visit.now_ms) if cap else 0,
            last_used_at=last_used.get(key.id, 0),
            spark=_spark(visit, days.get(key.id, []), top),
        )
        for key in found[:PAGE_ROWS]
    ]
    following = rows[-1].key.id if len(found) > PAGE_ROWS else 0
    return visit.page(
        "keys.html",
        rows=rows,
        following=following,
        base_url=visit.base_url + "/openai/v1",
    )


def _spark(visit: Visit, days: list[Usage], top: int) -> Markup:
    """The units of each day, on the scale of all keys of the account."""
    units = [day.units for day in days] or [0] * reports.SPARKLINE_DAYS
    title = visit.counted("{count} unit in 30 days", N_("{count} units in 30 days"), sum(units))
    return small_bars(units, title, top)


async def show_one(visit: Visit) -> Response:
    """One key: its state, its usage, its last refused request, and the forms that change it. The internal key
    has the page Try instead."""
    key = await _key_of_path(visit)
    if key.internal:
        return visit.redirect("/try")
    scopes = Scope(key.scopes)
    cap = await visit.read(store.cap_of, key_id=key.id)
    limit_form = await limit_fields(visit, key.account_id, key.id)
    first = await _first_request(visit, key)
    return visit.page(
        "key.html",
        key=key,
        state=keys.state(key, visit.now_ms),
        scopes=scopes.names,
        used=first.used,
        last_used_at=(await visit.read(reports_store.last_used, account_id=visit.account.id)).get(key.id, 0),
        refusal=await visit.read(store.last_refusal, account_id=visit.account.id, key_id=key.id),
        lines=client_lines(visit.base_url, PLACEHOLDER, scopes),
        first=first,
        graces=GRACES,
        cap=cap,
        cap_used=caps.used(cap, visit.now_ms) if cap else 0,
        cap_form=CapFields(str(cap.units), cap.period) if cap else CapFields(),
        limit_form=limit_form,
        limit_defaults=await limits_of_site(visit),
        routes=await routes_of_site(visit, limit_form.route),
        periods=PERIODS,
    )


async def own_key(visit: Visit) -> KeyRow:
    """The key of the path, if it is one of the account and not internal. Raises NotFound."""
    key = await _key_of_path(visit)
    if key.internal:
        raise NotFound("There is no such key.")
    return key


async def _key_of_path(visit: Visit) -> KeyRow:
    found = await visit.read(store.of_account_by_id, account_id=visit.account.id, key_id=visit.number("id"))
    if found is None:
        raise NotFound("There is no such key.")
    return found


async def rename(visit: Visit) -> Response:
    """Renames the key."""
    key = await own_key(visit)
    await visit.perform(visit.fields(RenameKey, key=str(key.id)), own=True)
    return visit.redirect(f"/keys/{key.id}", "The key is renamed.")


async def set_cap(visit: Visit) -> Response:
    """Sets the cap of the key, or removes it."""
    key, cap = await own_key(visit), visit.fields(CapFields).text
    await visit.perform(SetKeyCap(key=str(key.id), cap=cap or NO_CAP), own=True)
    notice = N_("The cap is set.") if cap else N_("The key has no cap now.")
    return visit.redirect(f"/keys/{key.id}", notice)


async def set_limits(visit: Visit) -> Response:
    """Sets the limits of the key, and the routes that it may use."""
    key = await own_key(visit)
    form, key_id = visit.fields(LimitFields), str(key.id)
    action = LimitKey(key=key_id, **typed_limits(form))
    action.check()
    if form.route != (await limit_fields(visit, key.account_id, key.id)).route:
        routes = SetKeyRoutes(key=key_id, route=tuple(form.route) or None, any=not form.route)
        await visit.perform(routes, own=True)
    await visit.perform(action, own=True)
    return visit.redirect(f"/keys/{key.id}", "The limits are set.")


async def roll(visit: Visit) -> Response:
    """Replaces the key by a new one, which is shown once."""
    key = await own_key(visit)
    rolled = await visit.perform(visit.fields(RollKey, key=str(key.id)), own=True)
    return await made(visit, rolled.issued, old=rolled.old, old_expires_at=rolled.old_expires_at)


async def show_revoke(visit: Visit) -> Response:
    """Says what will happen, and asks for the name."""
    key = await own_key(visit)
    if key.revoked_at:
        return visit.redirect(f"/keys/{key.id}")
    return visit.page(
        "key_revoke.html",
        key=key,
        last_used_at=(await visit.read(reports_store.last_used, account_id=visit.account.id)).get(key.id, 0),
        calls=(await visit.read(store.usage_of, key_ids=[key.id]))[key.id].calls,
    )


async def revoke(visit: Visit) -> Response:
    """Revokes the key if its name was typed."""
    key = await own_key(visit)
    visit.confirm(key.name)
    await visit.perform(RevokeKey(key=str(key.id)), own=True)
    return visit.redirect(
        "/keys", "The key {name} is revoked: every request with it is refused from now on.", name=key.name
    )


STATES = (N_("active"), N_("expired"), N_("revoked"))


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


class FirstRequest(Struct, frozen=True):
    """What the line under a new key says: its usage, the calls that ended, the last refused request."""

    used: KeyUsage
    ended: Usage
    refusal: Refusal | None


async def _first_request(visit: Visit, key: KeyRow) -> FirstRequest:
    used = (await visit.read(store.usage_of, key_ids=[key.id]))[key.id]
    if used.ok_calls:
        return FirstRequest(used, await _ended(visit, key), None)
    return FirstRequest(used, Usage(), await _refusal(visit, key))


async def _live(visit: Visit) -> Values:
    """The line of the key of the path. It is final once a request has succeeded."""
    key = await own_key(visit)
    first = await _first_request(visit, key)
    return {"key": key, "first": first, "final": first.used.ok_calls > 0}


async def _ended(visit: Visit, key: KeyRow) -> Usage:
    """The calls of the key that ended since it was made, at most in the last days that have hours."""
    start = max(key.created_at - HOUR_MS, visit.now_ms - (HOURS_MAX_DAYS - 1) * DAY_MS)
    end = time.time_ns() // 10**6 + HOUR_MS
    usage = partial(reports.usage_by_hour, account_id=visit.account.id, key_id=key.id)
    return reports.total(await visit.read(usage, start_ms=start, end_ms=end))


async def _refusal(visit: Visit, key: KeyRow) -> Refusal | None:
    """The latest refused request of this key, or one from the visitor's address without a valid key since
    this key was made."""
    of_key = await visit.read(store.last_refusal, account_id=visit.account.id, key_id=key.id)
    without_key = visit.parts.refusals.without_key(visit.address)
    oldest = max(key.created_at, visit.now_ms - WITHOUT_KEY_MAX_MS, of_key.at if of_key else 0)
    return without_key if without_key and without_key.at > oldest else of_key


async def show_new(visit: Visit) -> Response:
    """The form, with all scopes but `records` checked."""
    example = IssueKey(account=visit.account.name, name="NAME", scope=("chat", "tts"))
    return visit.page(
        "key_new.html",
        form=example,
        cap_form=CapFields(),
        limit_form=LimitFields(),
        limit_defaults=await limits_of_site(visit),
        lives=LIVES,
        periods=PERIODS,
        routes=await routes_of_site(visit, ()),
        command_words=example.words,
    )


async def add(visit: Visit) -> Response:
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
        first=await _first_request(visit, key),
        old=old,
        old_expires_at=old_expires_at * 1000,
    )
    return visit.result(f"/keys/{key.id}", page)


PERIODS = ((Period.DAY, N_("per day")), (Period.WEEK, N_("per week")), (Period.MONTH, N_("per month")))


class LimitFields(Struct):
    """The limits as typed, empty for those of the site; and the routes, none for any."""

    rpm: str = ""
    concurrent: str = ""
    units_per_day: str = ""
    route: list[str] = field(default_factory=list)


def typed_limits(form: LimitFields) -> dict[str, str]:
    """The limits as actions have them: an empty one is the site's."""
    return {name: getattr(form, name) or DEFAULT for name in limits.NAMES}


async def limit_fields(visit: Visit, account_id: int, key_id: int = OF_ACCOUNT) -> LimitFields:
    """The fields for the stored limits of a key, with its routes, or of an account."""
    stored = limits.shown(await store.limits_of(visit.db, account_id, key_id))
    routes = await config_store.routes_of_key(visit.db, key_id) if key_id != OF_ACCOUNT else None
    texts = {name: "" if text == DEFAULT else text for name, text in stored.items()}
    return LimitFields(**texts, route=list(routes or ()))


async def limits_of_site(visit: Visit, *, account: bool = False) -> Mapping[str, str]:
    """The site's limits of a key, or of an account, as text by the names of the fields."""
    await visit.config()
    defaults = limits.defaults_of(visit.parts.config.settings)
    found = NO_LIMITS if defaults is None else defaults.account if account else defaults.key
    return limits.as_texts(structs.asdict(found))


async def routes_of_site(visit: Visit, chosen: Collection[str]) -> list[Route]:
    """The routes that the form offers, none if the operator has added none. Whisper is one of them where it
    is installed, or if it is `chosen`."""
    config = await visit.config()
    whisper = TRANSCRIPTION_ROUTE in chosen or not await visit.parts.whisper_missing()
    found = listed(config, visit.parts.config.settings) if config.routes else []
    return [route for route in found if whisper or route.name != TRANSCRIPTION_ROUTE]


class CapFields(Struct):
    """The units and the period as typed; without units there is no cap."""

    cap_units: str = ""
    cap_period: str = Period.MONTH.value

    @property
    def text(self) -> str:
        """The cap as on the command line; "" without one."""
        return f"{self.cap_units}/{self.cap_period}" if self.cap_units else ""


PAGES = [
    Page("/keys", show=show),
    Page("/keys/{id:number}", show=show_one),
    live_page("/keys/{id:number}", "key.html", _live),
    Page("/keys/{id:number}/rename", submit=rename),
    Page("/keys/{id:number}/cap", submit=set_cap),
    Page("/keys/{id:number}/limits", submit=set_limits),
    Page("/keys/{id:number}/roll", submit=roll),
    Page("/keys/{id:number}/revoke", show=show_revoke, submit=revoke),
    Page("/keys/new", show=show_new, submit=add),
]

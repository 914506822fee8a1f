"""The start page of an account: does it need units, and what is the next step? And the first minute of an
operator: a chat server, then a first key."""

from collections.abc import Sequence
from datetime import timedelta
from fractions import Fraction
from functools import partial
from urllib.parse import urlsplit

from markupsafe import Markup
from msgspec import Struct, structs
from starlette.responses import Response

from myna.accounts import keys
from myna.actions.accounts import GrantFirstUnits
from myna.actions.channels import AddChannel
from myna.actions.keys import IssueKey
from myna.billing import reports
from myna.billing.reports import DAY_MS, SPARKLINE_DAYS, Usage
from myna.channels.channels import PARROT, Channel
from myna.errors import CommandError
from myna.gateway import models as server_models
from myna.gateway import trial as channel_trial
from myna.lib.net import is_base_url, without_login
from myna.lib.times import EPOCH, day_of
from myna.office.charts import Series, stacked_bars
from myna.office.page import Page
from myna.office.pages.keys import made
from myna.office.pages.reports import LABELS, memo_of
from myna.office.pages.site.channels import TRIAL_MAX_S
from myna.office.visit import Visit
from myna.store.queries import accounts as account_store
from myna.store.queries import keys as key_store
from myna.store.queries import reports as reports_store
from myna.store.queries.keys import KeyRow

RATE_DAYS = 7
"""The rate is the mean of this many days, the present one included."""
DAYS_MAX = 3650
"""A longer time is not a useful estimate."""
LOW_DAYS = 3
"""A balance that lasts fewer days is low."""
ENTRIES = 8


class BalanceEstimate(Struct, frozen=True):
    """`units` were used in `days` days. At this rate the balance lasts `days_left` more days; None if nothing
    was used, or for more than ten years."""

    units: int
    days: int
    days_left: int | None

    @property
    def is_low(self) -> bool:
        return self.days_left is not None and self.days_left < LOW_DAYS


def estimate(balance: int, used: Sequence[int], age_days: int) -> BalanceEstimate:
    """The estimate from the units used on each of the last days, the present one last. `age_days` is how many
    days the account has existed, the present one included: an account of today has a rate of one day."""
    days = max(1, min(RATE_DAYS, age_days, len(used)))
    units = sum(used[-days:])
    left = int(balance * Fraction(days, units)) if units else None
    return BalanceEstimate(units, days, left if left is None or left <= DAYS_MAX else None)


async def show(visit: Visit) -> Response:
    """Balance, how long it lasts, the next step, 30 days, and the last entries."""
    account = visit.account
    proof = await visit.read(reports.balance_proof, account_id=account.id)
    days = await _days(visit)
    all_keys = await visit.read(key_store.of_account, account_id=account.id)
    own = [key for key in reversed(all_keys) if not key.internal]
    used = [usage.units for _, usage in days]
    age_days = (visit.now_ms - account.created_at) // DAY_MS + 1
    lasts = estimate(proof.balance, used, age_days)
    wanted = await visit.read(account_store.preferences_of, account_id=account.id)
    return visit.page(
        "home.html",
        low_balance=wanted.low_balance if proof.balance < wanted.low_balance else 0,
        proof=proof,
        lasts=lasts,
        days=days,
        total=sum(used),
        chart=_chart(visit, [day for day, _ in days], used) if any(used) else None,
        next_step=await _next_step(visit, own, proof.balance),
        newest_key=own[0] if own else None,
        entries=(await visit.read(reports.ledger_page, account_id=account.id, limit=ENTRIES)).entries,
        labels=LABELS,
        memo_of=partial(memo_of, visit),
        names={key.id: visit.key_name(key) for key in all_keys},
    )


async def _days(visit: Visit) -> list[tuple[str, Usage]]:
    """The account's usage on each of the last 30 days, the present one last."""
    today = day_of(visit.time_zone, visit.now_ms)
    keys = (await reports.sparklines(visit.read, visit.account.id, today)).values()
    days = range(today - SPARKLINE_DAYS + 1, today + 1)
    return [
        ((EPOCH + timedelta(days=day)).isoformat(), reports.total(key[place] for key in keys))
        for place, day in enumerate(days)
    ]


def _chart(visit: Visit, days: list[str], units: list[int]) -> Markup:
    title = visit.text("Units by day, the last 30 days")
    series = [Series(visit.text("Units"), units)]
    return stacked_bars(days, series, title, 140, [day[5:] for day in days])


async def _next_step(visit: Visit, own: list[KeyRow], balance: int) -> str:
    """What is missing before the account can work: `chat`, `units`, `key`, `call`, or "" for nothing."""
    parts = visit.parts
    if visit.account.operator and not parts.channels.chat(parts.config.current):
        return "chat"
    if not balance:
        return "units"
    if not any(keys.state(key, visit.now_ms) == "active" for key in own):
        return "key"
    return "" if await visit.read(reports_store.last_used, account_id=visit.account.id) else "call"


FIRST_UNITS = 1000
MEMO = "first units"


class NewServer(Struct):
    """The form that adds a chat server. `untested`: it is added without a trial."""

    url: str = ""
    name: str = ""
    model: str = ""
    key: str = ""
    untested: bool = False


class FirstKey(Struct):
    """The form that makes the first key."""

    name: str = ""
    units: int = 0


async def show_start(
    visit: Visit, form: NewServer | None = None, error: str = "", *, failed: bool = False
) -> Response:
    """Offers the chat servers of this machine, any other, and the parrot. After a `failed` trial the form can
    add its server without one."""
    found = await server_models.find_servers(
        visit.parts.channel_client.http_client, visit.parts.settings.port
    )
    return visit.page(
        "start.html",
        found=found,
        form=form or NewServer(),
        parrot=PARROT,
        channels=await _chat_channels(visit),
        failed=failed,
        error=error,
    )


async def add_server(visit: Visit) -> Response:
    """Tries the server, adds it as a chat channel, and stores its key."""
    form = visit.fields(NewServer)
    url, form.key = form.url.rstrip("/"), form.key.strip()
    name = form.name or _name_of(url)
    action = AddChannel(kind="chat", name=name, url=url, model=form.model, key=form.key)
    action.check()
    if not form.untested and (failure := await _failure_of(visit, form, url)):
        return await show_start(visit, form, visit.said(failure), failed=True)
    await visit.perform(action)
    return visit.redirect("/start/key", "Chats go to {name} now.", name=name)


async def _failure_of(visit: Visit, form: NewServer, url: str) -> CommandError | None:
    """Why the server does not answer a chat; None if it does. Without a model in the form, the first one that
    the server lists is requested. Circuits don't count this trial: the server is no channel yet."""
    parts = visit.parts
    channel = Channel(kind="chat", name=without_login(url), url=url, model=form.model, key=form.key)
    if not form.model and url != PARROT:
        models = await server_models.models_of(parts.channel_client.http_client, url, form.key)
        channel = structs.replace(channel, model=models[0] if models else "")
    deadline_s = min(parts.settings.call_deadline_s, TRIAL_MAX_S)
    try:
        await channel_trial.chat(parts.channel_client, channel, deadline_s)
    except CommandError as failure:
        return failure
    finally:
        parts.channels.circuits.succeeded(channel.name)
    return None


async def show_key(visit: Visit) -> Response:
    """Asks for the name of the first key, and for units if the account has none."""
    return visit.page(
        "start_key.html",
        form=FirstKey(name=visit.text("my first key"), units=FIRST_UNITS),
        channels=await _chat_channels(visit),
        memo=MEMO,
    )


async def make_key(visit: Visit) -> Response:
    """Grants the units if the account has none, makes the key, and shows it."""
    form, name = visit.fields(FirstKey), visit.account.name
    if form.units:
        await visit.perform(GrantFirstUnits(name=name, units=form.units, memo=MEMO))
    return await made(visit, await visit.perform(IssueKey(account=name, name=form.name)))


def _name_of(url: str) -> str:
    """A name for the channel of this URL: its host. A URL that has none is refused with its own message."""
    if url == PARROT or not is_base_url(url):
        return "parrot"
    return urlsplit(url).hostname or ""


async def _chat_channels(visit: Visit) -> list[str]:
    """The names of the enabled chat channels."""
    return [channel.name for channel in visit.parts.channels.chat(await visit.config())]


PAGES = [
    Page("", show=show),
    Page("/start", show=show_start, submit=add_server, recent=True, secrets=("key",)),
    Page("/start/key", show=show_key, submit=make_key, recent=True),
]

"""The ledger: a month as a waterfall, its entries, and codes to redeem."""

import re
from collections.abc import AsyncGenerator
from datetime import UTC, datetime
from functools import partial

from msgspec import Struct
from starlette.responses import Response

from myna.actions.codes import RedeemCode
from myna.billing import reports
from myna.billing.reports import LedgerFilter, Month
from myna.office import charts, page
from myna.office.messages import N_
from myna.office.page import Page
from myna.office.visit import Visit
from myna.store.batch import EntryKind
from myna.store.queries import keys as keys_store
from myna.store.transaction_queue import transactions_of

ROWS = 50
_MONTH = re.compile(r"(20[0-9]{2})-(0[1-9]|1[0-2])")
KINDS = {
    "charge": (EntryKind.CHARGE, N_("charge")),
    "refund": (EntryKind.REFUND, N_("refund")),
    "grant": (EntryKind.GRANT, N_("grant")),
    "redeem": (EntryKind.REDEEM, N_("code")),
}
LABELS = dict(KINDS.values())


MEMOS = (N_("opening grant"), N_("first units"))
"""Memos of the service's own. They are stored in English."""
_OF_CODE = re.compile(r"code of batch ([0-9]+)(: .*)?", re.DOTALL)


def memo_of(visit: Visit, memo: str) -> str:
    """A memo in the language of the page, if it is the service's own."""
    if of_code := _OF_CODE.fullmatch(memo):
        return visit.text(N_("code of batch {id}")).format(id=of_code[1]) + (of_code[2] or "")
    return visit.text(memo) if memo in MEMOS else memo


class Period(Struct, frozen=True):
    """A month of the address."""

    year: int
    month: int

    @property
    def text(self) -> str:
        return f"{self.year}-{self.month:02}"

    def moved(self, months: int) -> "Period":
        """The month so many months later."""
        number = self.year * 12 + self.month - 1 + months
        return Period(number // 12, number % 12 + 1)


async def show(visit: Visit) -> Response:
    """A month, and a page of its entries."""
    period = _period(visit)
    month = await reports.month(visit.db, visit.account.id, period.year, period.month)
    kind = visit.parameter("kind")
    page = await reports.ledger_page(
        visit.db, visit.account.id, _filter(visit, month), visit.parameter("before"), ROWS
    )
    keys = await visit.read(partial(keys_store.of_account, account_id=visit.account.id))
    return visit.page(
        "ledger.html",
        month=month,
        period=period,
        present=_present(visit),
        chart=_chart(visit, month) if month.entries else None,
        page=page,
        kind=kind,
        kinds=[(name, label) for name, (_, label) in KINDS.items()],
        labels=LABELS,
        memo_of=partial(memo_of, visit),
        names={key.id: visit.key_name(key) for key in keys},
        first=not visit.parameter("before"),
        proof=await reports.balance_proof(visit.db, visit.account.id),
        redeem_words=RedeemCode(account=visit.account.name, code="CODE").words,
    )


async def redeem(visit: Visit) -> Response:
    """Redeems a code."""
    redeemed = await visit.perform(visit.fields(RedeemCode, account=visit.account.name), own=True)
    balance = f"{redeemed.account.balance:,}"
    one, many = N_("{count} unit added. Balance: {balance}."), N_("{count} units added. Balance: {balance}.")
    return visit.redirect("/ledger", visit.counted(one, many, redeemed.units, balance=balance))


async def download(visit: Visit) -> Response:
    """The entries of the month as CSV."""
    period = _period(visit)
    month = await reports.month(visit.db, visit.account.id, period.year, period.month)
    head = ("time", "kind", "units", "balance", "key_id", "call", "request_id", "memo", "model")
    return await page.csv_response(f"ledger-{period.text}.csv", head, _rows(visit, _filter(visit, month)))


async def _rows(visit: Visit, only: LedgerFilter) -> AsyncGenerator[list[page.Row]]:
    before, more = "", True
    while more:
        with transactions_of(visit.owner):
            page = await reports.ledger_page(visit.db, visit.account.id, only, before, reports.PAGE_MAX)
        yield [
            (
                visit.date(entry.at, seconds=True), entry.kind.name.lower(), entry.units, entry.balance,
                entry.key_id or "", entry.call_id.hex(), entry.request_id, entry.memo,
                entry.route,
            )
            for entry in page.entries
        ]  # fmt: skip
        before, more = page.before, bool(page.before)


def _present(visit: Visit) -> Period:
    now = datetime.fromtimestamp(visit.now_ms / 1000, UTC).astimezone(visit.zone)
    return Period(now.year, now.month)


def _period(visit: Visit) -> Period:
    match = _MONTH.fullmatch(visit.parameter("month"))
    return Period(int(match[1]), int(match[2])) if match else _present(visit)


def _filter(visit: Visit, month: Month) -> LedgerFilter:
    kind = KINDS.get(visit.parameter("kind"))
    return LedgerFilter(kind=kind[0] if kind else None, start_ms=month.start_ms, end_ms=month.end_ms)


def _chart(visit: Visit, month: Month) -> object:
    steps = [
        charts.Step(visit.text(N_("start"))),
        charts.Step(visit.text(N_("granted")), month.granted),
        charts.Step(visit.text(N_("redeemed")), month.redeemed),
        charts.Step(visit.text(N_("charged")), -month.charged),
        charts.Step(visit.text(N_("refunded")), month.refunded),
        charts.Step(visit.text(N_("end"))),
    ]
    return charts.waterfall(steps, visit.text(N_("The month in units")), start=month.start_balance)


PAGES = [
    Page(path="/ledger", show=show, submit=redeem),
    Page(path="/ledger.csv", show=download),
]

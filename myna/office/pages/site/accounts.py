"""Accounts: find, add, grant, limit, disable, invite, start a reset; and batches of codes for units."""

from starlette.responses import Response

from myna.accounts.sign_in import links
from myna.accounts.sign_in.links import LIFE_MS
from myna.actions import codes
from myna.actions.accounts import (
    AddAccount,
    DisableAccount,
    EnableAccount,
    GrantUnits,
    InviteAccount,
    LimitAccount,
    MakeLink,
    ResetAccount,
)
from myna.actions.codes import AddCodes, DisableCodes
from myna.errors import CommandError, NotFound
from myna.office.page import Handler, Page
from myna.office.pages.keys import LimitFields, limit_fields, limits_of_site, typed_limits
from myna.office.render import N_
from myna.office.visit import Visit
from myna.store.queries import accounts as store
from myna.store.queries import keys as keys_store
from myna.store.queries import sessions as session_store
from myna.store.queries import sign_in as sign_in_store
from myna.store.queries.accounts import AccountRow

ROWS = 50
ACTIVITY_ROWS = 10


async def show(visit: Visit) -> Response:
    """Accounts, newest first, by the beginning of their name or e-mail address."""
    prefix = visit.parameter("q").strip()[:200]
    rows = await visit.read(store.search, prefix=prefix, before=visit.row_id("before"), limit=ROWS + 1)
    return visit.page("site/accounts.html", rows=rows[:ROWS], more=len(rows) > ROWS, q=prefix)


async def show_new(visit: Visit) -> Response:
    """The form of a new account. The operator right is only given on the command line."""
    example = AddAccount(name="NAME", email="EMAIL", units=100)
    return visit.page("site/account_new.html", command_words=example.words)


async def add(visit: Visit) -> Response:
    """Adds an account, and shows the link with which the person sets a password."""
    account = await visit.perform(visit.fields(AddAccount, operator=False))
    return await _link(visit, account, InviteAccount(name=account.name))


async def show_one(visit: Visit) -> Response:
    """An account: balance, keys, limits, recent activity, and actions."""
    account = await _account(visit)
    limit_form = await limit_fields(visit, account.id)
    keys = await visit.read(keys_store.of_account, account_id=account.id)
    found = await visit.read(sign_in_store.password_of, account_id=account.id)
    changes = await visit.read(store.activity_page, limit=ACTIVITY_ROWS, account_id=account.id)
    return visit.page(
        "site/account.html",
        subject=account,
        keys=sum(not key.internal for key in keys),
        has_password=bool(found and found.hash),
        changes=changes,
        sessions=await visit.read(session_store.of_account, account_id=account.id),
        limit_form=limit_form,
        limit_defaults=await limits_of_site(visit, account=True),
        limit_words=LimitAccount(name=account.name, **typed_limits(limit_form)).words,
        grant_words=GrantUnits(name=account.name, units=100, memo="MEMO").words,
        switch_words=_switch_of(account).words,
        link_words=(ResetAccount if found and found.hash else InviteAccount)(name=account.name).words,
    )


async def grant(visit: Visit) -> Response:
    """Grants or takes units."""
    account = await _account(visit)
    action = visit.fields(GrantUnits, name=account.name)
    await visit.perform(action)
    one, many = "{count} unit for {name}.", N_("{count} units for {name}.")
    notice = visit.counted(one, many, action.units, count=f"{action.units:+,}", name=account.name)
    return visit.redirect(f"/site/accounts/{account.id}", notice)


async def limit(visit: Visit) -> Response:
    """Sets the limits of an account."""
    account = await _account(visit)
    limits = typed_limits(visit.fields(LimitFields))
    await visit.perform(LimitAccount(name=account.name, **limits))
    return visit.redirect(f"/site/accounts/{account.id}", "The limits are set.")


def _switch_of(account: AccountRow) -> EnableAccount | DisableAccount:
    """The other state of an account. The operator who disables one can sign in."""
    if account.disabled_at:
        return EnableAccount(name=account.name)
    return DisableAccount(name=account.name, force=True)


async def switch(visit: Visit) -> Response:
    """Disables an account whose name was typed, or enables a disabled one."""
    account = await _account(visit)
    if not account.disabled_at:
        visit.confirm(account.name)
    if account.id == visit.account.id:
        raise CommandError("You can't disable the account that you are signed in with.")
    await visit.perform(_switch_of(account))
    notice = N_("{name} is enabled.") if account.disabled_at else N_("{name} is disabled.")
    return visit.redirect(f"/site/accounts/{account.id}", notice, name=account.name)


def makes_link(kind: type[MakeLink]) -> Handler:
    """The function of a form that makes a link and shows it once. The operator does not learn the
    password."""

    async def submit(visit: Visit) -> Response:
        account = await _account(visit)
        return await _link(visit, account, kind(name=account.name))

    return submit


async def _link(visit: Visit, account: AccountRow, action: MakeLink) -> Response:
    token = await visit.perform(action)
    page = visit.page(
        "site/account_link.html",
        subject=account,
        purpose=action.purpose.value,
        link=links.url(visit.base_url, token),
        life_ms=LIFE_MS[action.purpose],
    )
    return visit.result(f"/site/accounts/{account.id}", page)


async def _account(visit: Visit) -> AccountRow:
    found = await visit.read(store.by_id, account_id=visit.number("id"))
    if found is None:
        raise NotFound("There is no such account.")
    return found


STATES = (N_("active"), N_("disabled"), N_("expired"), N_("used up"))


async def show_codes(visit: Visit) -> Response:
    """The batches, newest first, and the form of a new one."""
    batches = await visit.read(codes.list_all)
    rows = [(batch, codes.batch_state(batch, visit.now_ms)) for batch in reversed(batches)]
    example = AddCodes(units=100, count=10, expires="30d")
    return visit.page(
        "site/codes.html",
        rows=rows,
        form=AddCodes(units=100),
        command_words=example.words,
    )


async def add_codes(visit: Visit) -> Response:
    """Makes a batch, and shows its codes this once."""
    made = await visit.perform(visit.fields(AddCodes))
    return visit.result("/site/codes", visit.page("site/codes_made.html", made=made))


async def show_disable_codes(visit: Visit) -> Response:
    """Says what is lost, and asks."""
    batch = next((one for one in await visit.read(codes.list_all) if one.id == visit.number("id")), None)
    if batch is None:
        raise NotFound("There is no batch {batch_id}.", batch_id=visit.number("id"))
    words = DisableCodes(batch=batch.id).words
    return visit.page("site/codes_disable.html", batch=batch, command_words=words)


async def disable_codes(visit: Visit) -> Response:
    """Disables the codes of a batch."""
    await visit.perform(DisableCodes(batch=visit.number("id")))
    return visit.redirect("/site/codes", "The codes of this batch are disabled.")


PAGES = [
    Page("/site/accounts", show=show),
    Page("/site/accounts/new", show=show_new, submit=add, recent=True),
    Page("/site/accounts/{id:number}", show=show_one),
    Page("/site/accounts/{id:number}/grant", submit=grant, recent=True),
    Page("/site/accounts/{id:number}/limits", submit=limit, recent=True),
    Page("/site/accounts/{id:number}/switch", submit=switch, recent=True),
    Page("/site/accounts/{id:number}/invite", submit=makes_link(InviteAccount), recent=True),
    Page("/site/accounts/{id:number}/reset", submit=makes_link(ResetAccount), recent=True),
    Page("/site/codes", show=show_codes, submit=add_codes, recent=True),
    Page(
        "/site/codes/{id:number}/disable",
        show=show_disable_codes,
        submit=disable_codes,
        recent=True,
    ),
]

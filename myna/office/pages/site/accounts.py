"""Accounts: find, add, grant, limit, disable, invite, start a reset."""

from functools import partial

from starlette.responses import Response

from myna.accounts.sign_in import links, sessions
from myna.accounts.sign_in.links import LIFE_MS, Purpose
from myna.actions.accounts import (
    AddAccount,
    DisableAccount,
    EnableAccount,
    GrantUnits,
    InviteAccount,
    LimitAccount,
    ResetAccount,
)
from myna.errors import CommandError, NotFound
from myna.office.limit_form import LimitFields, fields_of_account, of_site, typed_limits
from myna.office.messages import N_
from myna.office.page import Page, Who
from myna.office.visit import Visit
from myna.store.queries import accounts as store
from myna.store.queries import activity as activity_store
from myna.store.queries import keys as keys_store
from myna.store.queries import sign_in as sign_in_store
from myna.store.queries.accounts import AccountRow

ROWS = 50
ACTIVITY_ROWS = 10
PAST_ALL = 2**63 - 1


async def show(visit: Visit) -> Response:
    """Accounts, newest first, by the beginning of their name or e-mail address."""
    prefix = visit.parameter("q").strip()[:200]
    before = visit.row_id("before")
    rows = await visit.read(partial(store.search, prefix=prefix, before=before, limit=ROWS + 1))
    return visit.page(
        "site/accounts.html", rows=rows[:ROWS], more=len(rows) > ROWS, q=prefix, first=before == PAST_ALL
    )


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
    limit_form = await fields_of_account(visit, account.id)
    keys = await visit.read(partial(keys_store.of_account, account_id=account.id))
    found = await visit.read(partial(sign_in_store.password_of, account_id=account.id))
    changes = await visit.read(
        partial(
            activity_store.page,
            before=PAST_ALL,
            limit=ACTIVITY_ROWS,
            prefix="",
            actor_id=None,
            account_id=account.id,
        )
    )
    return visit.page(
        "site/account.html",
        subject=account,
        keys=sum(not key.internal for key in keys),
        has_password=bool(found and found.hash),
        changes=changes,
        sessions=await sessions.of_account(visit.db, account.id),
        limit_form=limit_form,
        limit_defaults=await of_site(visit, account=True),
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
    one, many = N_("{count} unit for {name}."), N_("{count} units for {name}.")
    notice = visit.counted(one, many, action.units, count=f"{action.units:+,}", name=account.name)
    return visit.redirect(f"/site/accounts/{account.id}", notice)


async def limit(visit: Visit) -> Response:
    """Sets the limits of an account."""
    account = await _account(visit)
    limits = typed_limits(visit.fields(LimitFields))
    await visit.perform(LimitAccount(name=account.name, **limits))
    return visit.redirect(f"/site/accounts/{account.id}", visit.text("The limits are set."))


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
    notice = visit.text("{name} is enabled.") if account.disabled_at else visit.text("{name} is disabled.")
    return visit.redirect(f"/site/accounts/{account.id}", notice.format(name=account.name))


async def invite(visit: Visit) -> Response:
    """A link for the first password."""
    account = await _account(visit)
    return await _link(visit, account, InviteAccount(name=account.name))


async def reset(visit: Visit) -> Response:
    """A link for a new password. The operator does not learn it."""
    account = await _account(visit)
    return await _link(visit, account, ResetAccount(name=account.name))


async def _link(visit: Visit, account: AccountRow, action: InviteAccount | ResetAccount) -> Response:
    purpose = Purpose.INVITE if isinstance(action, InviteAccount) else Purpose.RESET
    token = await visit.perform(action)
    page = visit.page(
        "site/account_link.html",
        subject=account,
        purpose=purpose.value,
        link=links.url(visit.base_url, token),
        life_ms=LIFE_MS[purpose],
    )
    return visit.result(f"/site/accounts/{account.id}", page)


async def _account(visit: Visit) -> AccountRow:
    found = await visit.read(partial(store.by_id, account_id=visit.number("id")))
    if found is None:
        raise NotFound("There is no such account.")
    return found


PAGES = [
    Page(path="/site/accounts", show=show, who=Who.OPERATOR),
    Page(path="/site/accounts/new", show=show_new, submit=add, who=Who.OPERATOR, recent=True),
    Page(path="/site/accounts/{id:number}", show=show_one, who=Who.OPERATOR),
    Page(path="/site/accounts/{id:number}/grant", submit=grant, who=Who.OPERATOR, recent=True),
    Page(path="/site/accounts/{id:number}/limits", submit=limit, who=Who.OPERATOR, recent=True),
    Page(path="/site/accounts/{id:number}/switch", submit=switch, who=Who.OPERATOR, recent=True),
    Page(path="/site/accounts/{id:number}/invite", submit=invite, who=Who.OPERATOR, recent=True),
    Page(path="/site/accounts/{id:number}/reset", submit=reset, who=Who.OPERATOR, recent=True),
]

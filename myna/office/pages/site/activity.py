"""The activity log: who changed what, and the command that does the same."""

from functools import partial

from starlette.responses import Response

from myna.accounts import activity
from myna.office.messages import N_
from myna.office.page import Page, Who
from myna.office.visit import Visit
from myna.store.queries import accounts as accounts_store
from myna.store.queries.activity import PAST_ALL

ROWS = 50
NOTES = (
    N_("a new password was set"),
    N_("all but the session of this change"),
    N_("the link was used to set the password"),
)
"""Behind commands, as they are stored."""


async def show(visit: Visit) -> Response:
    """A page of changes, by the beginning of the command and by account."""
    prefix = visit.parameter("q").strip()[:200]
    name = visit.parameter("account").strip()[:200]
    before = visit.row_id("before")
    owner = await visit.read(partial(accounts_store.by_name, name=name)) if name else None
    rows = (
        []
        if name and owner is None
        else await visit.read(
            partial(
                activity.page,
                before=before,
                limit=ROWS + 1,
                prefix=prefix,
                account_id=owner.id if owner else None,
            )
        )
    )
    return visit.page(
        "site/activity.html",
        rows=rows[:ROWS],
        more=len(rows) > ROWS,
        q=prefix,
        name=name,
        first=before == PAST_ALL,
        command_words=activity.words("activity", account=name or None),
    )


PAGES = [Page(path="/site/activity", show=show, who=Who.OPERATOR)]

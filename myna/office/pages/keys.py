"""The keys of an account."""

from functools import partial

from msgspec import Struct
from starlette.responses import Response

from myna import keys
from myna.office.messages import N_
from myna.office.page import Page
from myna.office.visit import Visit
from myna.store.queries import keys as store
from myna.store.queries.keys import KeyRow


class Row(Struct, frozen=True):
    """A line of the table."""

    key: KeyRow
    state: str
    scopes: list[str]


async def show(visit: Visit) -> Response:
    """All keys of the account."""
    found = await visit.read(partial(store.of_account, account_id=visit.account.id))
    rows = [
        Row(key=key, state=keys.state(key, visit.now_ms), scopes=keys.Scope(key.scopes).names)
        for key in found
    ]
    return visit.page("keys.html", rows=rows)


PAGES = [Page(path="/keys", show=show)]

STATES = (N_("active"), N_("expired"), N_("revoked"))

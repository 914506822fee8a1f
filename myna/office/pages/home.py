"""The start page of an account."""

from starlette.responses import Response

from myna.office.page import Page
from myna.office.visit import Visit


async def show(visit: Visit) -> Response:
    """Balance, and the next step."""
    return visit.page("home.html")


PAGES = [Page(path="", show=show)]

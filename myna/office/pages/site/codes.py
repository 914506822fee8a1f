"""Codes for units: batches, made and disabled."""

from starlette.responses import Response

from myna.actions import codes
from myna.actions.codes import AddCodes, DisableCodes
from myna.errors import NotFound
from myna.office.messages import N_
from myna.office.page import Page, Who
from myna.office.visit import Visit

STATES = (N_("active"), N_("disabled"), N_("expired"), N_("used up"))


async def show(visit: Visit) -> Response:
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


async def add(visit: Visit) -> Response:
    """Makes a batch, and shows its codes this once."""
    made = await visit.perform(visit.fields(AddCodes))
    return visit.result("/site/codes", visit.page("site/codes_made.html", made=made))


async def show_disable(visit: Visit) -> Response:
    """Says what is lost, and asks."""
    batch = next((one for one in await visit.read(codes.list_all) if one.id == visit.number("id")), None)
    if batch is None:
        raise NotFound("There is no batch {batch_id}.", batch_id=visit.number("id"))
    words = DisableCodes(batch=batch.id).words
    return visit.page("site/codes_disable.html", batch=batch, command_words=words)


async def disable(visit: Visit) -> Response:
    """Disables the codes of a batch."""
    await visit.perform(DisableCodes(batch=visit.number("id")))
    return visit.redirect("/site/codes", visit.text("The codes of this batch are disabled."))


PAGES = [
    Page(path="/site/codes", show=show, submit=add, who=Who.OPERATOR, recent=True),
    Page(
        path="/site/codes/{id:number}/disable",
        show=show_disable,
        submit=disable,
        who=Who.OPERATOR,
        recent=True,
    ),
]

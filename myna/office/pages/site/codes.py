"""Codes for units: batches, made and disabled."""

from typing import Annotated

from msgspec import Meta, Struct
from starlette.responses import Response

from myna import activity, codes, durations
from myna.codes import NewBatch
from myna.errors import CommandError, InvalidRequest, NotFound
from myna.office.messages import N_
from myna.office.page import Page, Who
from myna.office.visit import Visit

STATES = (N_("active"), N_("disabled"), N_("expired"), N_("used up"))


class NewCodes(Struct):
    """The form of a new batch. `expires` is a duration such as 30d, empty for never."""

    units: Annotated[int, Meta(ge=1)] = 100
    count: Annotated[int, Meta(ge=1)] = 1
    uses: Annotated[int, Meta(ge=1)] = 1
    expires: str = ""
    memo: str = ""


async def show(visit: Visit, error: str = "") -> Response:
    """The batches, newest first, and the form of a new one."""
    batches = await visit.read(codes.list_all)
    rows = [(batch, codes.batch_state(batch, visit.now_ms)) for batch in reversed(batches)]
    words = activity.words("code", "add", units=100, count=10, expires="30d")
    return visit.page(
        "site/codes.html",
        status=400 if error else 200,
        rows=rows,
        form=NewCodes(),
        error=error,
        command_words=words,
    )


async def add(visit: Visit) -> Response:
    """Makes a batch, and shows its codes this once."""
    try:
        form = visit.fields(NewCodes)
        made: NewBatch = await codes.add(
            visit.db,
            units=form.units,
            count=form.count,
            uses=form.uses,
            life_ms=durations.millis(form.expires) if form.expires else 0,
            memo=form.memo,
            by=visit.actor,
        )
    except (CommandError, InvalidRequest) as error:
        return await show(visit, visit.said(error))
    return visit.result("/site/codes", visit.page("site/codes_made.html", made=made))


async def show_disable(visit: Visit) -> Response:
    """Says what is lost, and asks."""
    batch = next((one for one in await visit.read(codes.list_all) if one.id == visit.number("id")), None)
    if batch is None:
        raise NotFound("There is no batch {batch_id}.", batch_id=visit.number("id"))
    words = activity.words("code", "disable", batch.id)
    return visit.page("site/codes_disable.html", batch=batch, command_words=words)


async def disable(visit: Visit) -> Response:
    """Disables the codes of a batch."""
    await codes.disable(visit.db, visit.number("id"), by=visit.actor)
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

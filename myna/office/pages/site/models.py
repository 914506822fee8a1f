"""Neural models: which are installed and can be fetched, with the progress of a fetch."""

import asyncio
from functools import partial

from msgspec import Struct
from starlette.responses import Response

from myna.engines.registry import AUTO
from myna.errors import CommandError
from myna.office import live, model_fetching
from myna.office.live import Part
from myna.office.messages import N_
from myna.office.model_fetching import ModelFetching
from myna.office.page import Page, Who
from myna.office.visit import Visit

PATH = "/site/models"
WORDS = (N_("Apache-2.0; its export to ONNX: MIT"), N_("and others"))
"""Of the licences and languages of the models."""


class OneModel(Struct):
    """A form about one model; `typed` confirms its removal."""

    name: str = ""
    typed: str = ""


async def show(visit: Visit, error: str = "") -> Response:
    """All published models."""
    part = await _models(visit)
    return visit.page("site/models.html", status=400 if error else 200, part=part.html, error=error)


async def follow(visit: Visit) -> Response:
    """The models with their progress, as server-sent events."""
    return live.stream(visit, partial(_models, visit))


async def _models(visit: Visit) -> Part:
    states = await asyncio.to_thread(_fetching(visit).states)
    speaking = {
        channel.name.removeprefix("default-")
        for channel in visit.parts.channels.speech(visit.parts.config.current)
    }
    html = visit.part(
        "site/models_part.html",
        states=states,
        speaking=speaking,
        speech=visit.parts.settings.speech,
        automatic=visit.parts.settings.speech == AUTO,
    )
    return Part(html)


def _fetching(visit: Visit) -> ModelFetching:
    return visit.parts.models


async def get(visit: Visit) -> Response:
    """Starts the command that fetches a model."""
    name = visit.fields(OneModel).name
    await visit.claim()
    try:
        await asyncio.to_thread(_fetching(visit).start, name)
    except CommandError as error:
        return await show(visit, visit.said(error))
    await model_fetching.record(visit.db, "get", name, by=visit.actor)
    return visit.redirect(PATH)


async def remove(visit: Visit) -> Response:
    """Removes a model."""
    form = visit.fields(OneModel)
    try:
        if form.typed != form.name:
            raise CommandError(visit.text("Type the name to remove it."))
        await visit.claim()
        await asyncio.to_thread(_fetching(visit).remove, form.name)
    except CommandError as error:
        return await show(visit, visit.said(error))
    await model_fetching.record(visit.db, "remove", form.name, by=visit.actor)
    return visit.redirect(PATH, visit.text("{name} is removed.").format(name=form.name))


PAGES = [
    Page(path=PATH, show=show, who=Who.OPERATOR),
    Page(path=f"{PATH}/live", show=follow, who=Who.OPERATOR),
    Page(path=f"{PATH}/get", submit=get, who=Who.OPERATOR, recent=True),
    Page(path=f"{PATH}/remove", submit=remove, who=Who.OPERATOR, recent=True),
]

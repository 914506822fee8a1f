"""Neural models: which are installed and can be fetched, with the progress of a fetch."""

import asyncio
from functools import partial

from starlette.responses import Response

from myna.actions.site import GetModel, RemoveModel
from myna.engines.registry import AUTO
from myna.office import live
from myna.office.live import Part
from myna.office.messages import N_
from myna.office.model_fetching import ModelFetching
from myna.office.page import Page, Who
from myna.office.visit import Visit

PATH = "/site/models"
WORDS = (N_("Apache-2.0; its export to ONNX: MIT"), N_("and others"))
"""Of the licences and languages of the models."""


async def show(visit: Visit) -> Response:
    """All published models."""
    return visit.page("site/models.html", part=(await _models(visit)).html)


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
    action = visit.fields(GetModel)
    await visit.claim()
    await asyncio.to_thread(_fetching(visit).start, action.name)
    await visit.perform(action)
    return visit.redirect(PATH)


async def remove(visit: Visit) -> Response:
    """Removes a model."""
    action = visit.fields(RemoveModel)
    visit.confirm(action.name)
    await visit.claim()
    await asyncio.to_thread(_fetching(visit).remove, action.name)
    await visit.perform(action)
    return visit.redirect(PATH, visit.text("{name} is removed.").format(name=action.name))


PAGES = [
    Page(path=PATH, show=show, who=Who.OPERATOR),
    Page(path=f"{PATH}/live", show=follow, who=Who.OPERATOR),
    Page(path=f"{PATH}/get", submit=get, who=Who.OPERATOR, recent=True),
    Page(path=f"{PATH}/remove", submit=remove, who=Who.OPERATOR, recent=True),
]

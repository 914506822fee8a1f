"""Site settings, which can be changed, and process settings with where each value comes from."""

from starlette.responses import Response

from myna import config, settings
from myna.actions.site import SetSetting
from myna.office.messages import N_
from myna.office.page import Page, Who
from myna.office.visit import Visit
from myna.store.queries import config as store

SOURCES = (N_("default"), N_("database"), N_("environment"), N_("unreadable"))
"""Where a value comes from; a file is named."""


UNREADABLE = N_("The stored value of {name} can't be read ({why}); its default applies.")


async def show(visit: Visit) -> Response:
    """All settings."""
    stored = await visit.read(store.load)
    return visit.page(
        "site/settings.html",
        site=config.applied(stored),
        process=settings.load(visit.parts.environ)[1],
        unreadable=[
            visit.text(UNREADABLE).format(name=one.name, why=visit.said_of(one.why))
            for one in config.unreadable(stored)
        ],
        command_words=SetSetting(name="NAME", value="VALUE").words,
    )


async def change(visit: Visit) -> Response:
    """Changes one site setting; every process uses it from its next call on."""
    action = visit.fields(SetSetting, value=visit.typed("value"))
    await visit.perform(action)
    notice = visit.text("{name} is {value} now.").format(name=action.name, value=action.value)
    return visit.redirect("/site/settings", notice)


PAGES = [Page(path="/site/settings", show=show, submit=change, who=Who.OPERATOR, recent=True)]

"""Pages for operators."""

from myna.office.page import Page
from myna.office.pages.site import (
    accounts,
    activity,
    calls,
    channel_forms,
    channels,
    codes,
    health,
    models,
    nodes,
    public_voices,
    routes,
    settings,
)

SITE_PAGES: list[Page] = [
    *accounts.PAGES,
    *activity.PAGES,
    *calls.PAGES,
    *channel_forms.PAGES,
    *channels.PAGES,
    *codes.PAGES,
    *health.PAGES,
    *models.PAGES,
    *nodes.PAGES,
    *public_voices.PAGES,
    *routes.PAGES,
    *settings.PAGES,
]

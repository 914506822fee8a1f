"""Pages for operators."""

from myna.office.page import Page
from myna.office.pages.site import channel_forms, channels, nodes, public_voices

SITE_PAGES: list[Page] = [*channel_forms.PAGES, *channels.PAGES, *nodes.PAGES, *public_voices.PAGES]

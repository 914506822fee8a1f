"""The one-time link with which the first operator opens the back office."""

import asyncio

from myna.accounts.sign_in import links
from myna.cli.console import open_database
from myna.settings import Settings


def first_link(settings: Settings) -> str:
    """A new link, valid for 15 minutes; "" if an operator can sign in already."""
    return asyncio.run(_first_link(settings))


async def _first_link(settings: Settings) -> str:
    async with open_database(settings) as db:
        if not await links.first_is_needed(db):
            return ""
        token = await links.create_first(db)
        return links.url(settings.base_url, token)

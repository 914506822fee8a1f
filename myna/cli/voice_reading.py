"""myna voice read: what a voice will say, without saying it."""

import asyncio
import sys
from collections.abc import Iterable, Iterator
from contextlib import aclosing
from typing import Annotated

from cyclopts import Parameter
from msgspec import structs

from myna.accounts import accounts
from myna.cli.console import Json, show, with_database
from myna.engines.how_read import VOICES, readings
from myna.engines.interface import EngineFailed
from myna.errors import CommandError, ConfigError
from myna.store.database import Database
from myna.store.queries.voices import SITE
from myna.voices import lexicon


def read(
    text: Annotated[str | None, Parameter(help="The text to read.")] = None,
    /,
    *,
    voice: Annotated[
        str, Parameter(help="The id of a voice of Kokoro or espeak-ng; default: Kokoro's first one.")
    ] = next(iter(VOICES)),
    account: Annotated[str, Parameter(help="Read as in the texts of this account.")] = "",
    lines: Annotated[bool, Parameter(help="Read the texts from standard input, one a line.")] = False,
    json: Json = False,
) -> None:
    """Print what a voice will say, in words and in phonemes, without saying it."""
    if voice not in VOICES:
        raise CommandError(f"No voice of Kokoro or espeak-ng has the id {voice!r}.")
    if lines == (text is not None):
        raise ConfigError("Give a text, or --lines and the texts on standard input.")
    words = _words(account)
    texts = (lexicon.with_readings(one, words) for one in (_lines() if text is None else (text,)))
    try:
        asyncio.run(_print(texts, voice, json))
    except EngineFailed as failure:
        raise CommandError(f"The text can't be read: {failure}") from None


def _words(account: str) -> dict[str, str]:
    """The words of the site and of the account. Without one, a database is not needed."""

    async def work(db: Database) -> dict[str, str]:
        return await lexicon.stored(db, (await accounts.find(db, account)).id if account else SITE)

    try:
        return with_database(work, json=True)
    except CommandError:
        if account:
            raise
        return {}


def _lines() -> Iterator[str]:
    try:
        for line in sys.stdin:
            line.encode()  # by locale, bytes that are not UTF-8 arrive as surrogates
            yield line.rstrip("\r\n")
    except UnicodeError:
        raise CommandError("Standard input is not UTF-8.") from None


async def _print(texts: Iterable[str], voice: str, json: bool) -> None:
    async with aclosing(readings(texts, voice)) as found:
        async for reading in found:
            show(structs.asdict(reading), json)

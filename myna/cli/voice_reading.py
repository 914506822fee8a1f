"""myna voice read: what a voice will say, without saying it."""

import asyncio
import sys
from collections.abc import Iterable, Iterator
from contextlib import aclosing
from typing import Annotated

from cyclopts import Parameter
from msgspec import structs

from myna.cli.console import Json, show
from myna.engines.how_read import VOICES, readings
from myna.engines.interface import EngineFailed
from myna.errors import CommandError, ConfigError


def read(
    text: Annotated[str | None, Parameter(help="The text to read.")] = None,
    /,
    *,
    voice: Annotated[
        str, Parameter(help="The id of a voice of Kokoro or espeak-ng; default: Kokoro's first one.")
    ] = next(iter(VOICES)),
    lines: Annotated[bool, Parameter(help="Read the texts from standard input, one a line.")] = False,
    json: Json = False,
) -> None:
    """Print what a voice will say, in words and in phonemes, without saying it."""
    if voice not in VOICES:
        raise CommandError(f"No voice of Kokoro or espeak-ng has the id {voice!r}.")
    if lines == (text is not None):
        raise ConfigError("Give a text, or --lines and the texts on standard input.")
    texts = _lines() if text is None else iter((text,))
    try:
        asyncio.run(_print(texts, voice, json))
    except EngineFailed as failure:
        raise CommandError(f"The text can't be read: {failure}") from None


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

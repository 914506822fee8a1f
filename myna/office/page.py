"""How a page is declared, and CSV files in place of one, as spreadsheets open them."""

import csv
import io
import re
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import aclosing
from enum import IntEnum

from msgspec import Struct
from starlette.convertors import Convertor, register_url_convertor
from starlette.responses import Response, StreamingResponse

from myna.office.forms import FORM_MAX_BYTES
from myna.office.visit import Visit

DIGITS_MAX = 19
Handler = Callable[[Visit], Awaitable[Response]]
Row = Sequence[object]
FORMULA = re.compile(r"(^|[;\t\r\n])(?=[^\S;\t\r\n]*[=+\-@＝＋－＠]|[\t\r])")
"""Where a cell begins with a formula, also for a spreadsheet that separates cells by `;` or a tab."""


class Number(Convertor[int]):
    """A number of a path, with no more digits than an id of the database. One with more names no page."""

    regex = f"[0-9]{{1,{DIGITS_MAX}}}"

    def convert(self, value: str) -> int:
        return int(value)

    def to_string(self, value: int) -> str:
        return str(value)


register_url_convertor("number", Number())


class Who(IntEnum):
    """Who may open a page."""

    ANYONE = 0
    ACCOUNT = 1
    OPERATOR = 2


class Page(Struct, frozen=True, kw_only=True):
    """A page below /office. `path` has Starlette's syntax, and `{id:number}`.

    `recent`: its form is accepted only if the password was entered in the last ten minutes; otherwise the
    browser asks for it and sends the form again (ASVS 7.5). `secrets` are fields that no page repeats: they
    are entered again with the password.

    A form makes its change once, however often it is sent: see `submission.py`. `repeatable` says of a form
    for which that is not so why it may be sent again.
    """

    path: str
    show: Handler | None = None
    submit: Handler | None = None
    who: Who = Who.ACCOUNT
    recent: bool = False
    secrets: tuple[str, ...] = ()
    repeatable: str = ""
    form_max_bytes: int = FORM_MAX_BYTES

    @property
    def methods(self) -> list[str]:
        return [name for name, handler in (("GET", self.show), ("POST", self.submit)) if handler]


async def csv_response(name: str, head: Row, pages: AsyncGenerator[Iterable[Row]]) -> Response:
    """A CSV file to download, in UTF-8 with a byte order mark, which Excel needs. It is sent page by page;
    the first one is read before the response begins, so that its errors are answered."""
    first = await anext(pages, ())

    async def parts() -> AsyncIterator[str]:
        async with aclosing(pages):
            yield "\ufeff" + _text([head, *first])
            async for rows in pages:
                yield _text(rows)

    file = StreamingResponse(parts(), media_type="text/csv; charset=utf-8")
    file.headers["Content-Disposition"] = f'attachment; filename="{name}"'
    return file


def _text(rows: Iterable[Row]) -> str:
    text = io.StringIO()
    csv.writer(text).writerows([cell(value) for value in row] for row in rows)
    return text.getvalue()


def cell(value: object) -> object:
    """Text that a spreadsheet would run as a formula gets an apostrophe before it (ASVS 1.2.10)."""
    return FORMULA.sub(r"\1'", value) if isinstance(value, str) else value

"""CSV files, as spreadsheets open them."""

import csv
import io
import re
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Sequence
from contextlib import aclosing

from starlette.responses import Response, StreamingResponse

Row = Sequence[object]

FORMULA = re.compile(r"(^|[;\t\r\n])(?=[^\S;\t\r\n]*[=+\-@＝＋－＠]|[\t\r])")
"""Where a cell begins with a formula, also for a spreadsheet that separates cells by `;` or a tab."""


async def response(name: str, head: Row, pages: AsyncGenerator[Iterable[Row]]) -> Response:
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

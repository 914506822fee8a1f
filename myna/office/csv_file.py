"""CSV files, as spreadsheets open them."""

import csv
import io
import re
from collections.abc import Iterable, Sequence

from starlette.responses import Response

FORMULA = re.compile(r"(^|[;\t\r\n])(?=[^\S;\t\r\n]*[=+\-@＝＋－＠]|[\t\r])")
"""Where a cell begins with a formula, also for a spreadsheet that separates cells by `;` or a tab."""


def response(name: str, head: Sequence[str], rows: Iterable[Sequence[object]]) -> Response:
    """A CSV file to download, in UTF-8 with a byte order mark, which Excel needs."""
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(head)
    writer.writerows([cell(value) for value in row] for row in rows)
    file = Response("\ufeff" + text.getvalue(), media_type="text/csv; charset=utf-8")
    file.headers["Content-Disposition"] = f'attachment; filename="{name}"'
    return file


def cell(value: object) -> object:
    """Text that a spreadsheet would run as a formula gets an apostrophe before it (ASVS 1.2.10)."""
    return FORMULA.sub(r"\1'", value) if isinstance(value, str) else value

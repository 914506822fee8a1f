"""Statements for many rows at once, on both databases."""

from collections.abc import Sequence
from functools import lru_cache
from itertools import chain

from myna.store.database import Queries, Row

ROWS_MAX = 64
"""How many rows a statement has, or a lower power of two: with few sizes all statements stay prepared."""


async def with_rows(db: Queries, head: str, rows: Sequence[Row], tail: str, *types: str) -> list[Row]:
    """Runs `head`, the rows as a list of VALUES, and `tail`, in as many statements as it takes. Returns their
    rows. `types` has a type for each column where a VALUES list alone has none, as outside an INSERT."""
    found: list[Row] = []
    begin = 0
    while left := len(rows) - begin:
        size = min(ROWS_MAX, 1 << left.bit_length() - 1)
        chunk = rows[begin : begin + size]
        values = _values(size, len(chunk[0]), types)
        found += await db.fetch(f"{head} {values} {tail}", *chain.from_iterable(chunk))
        begin += size
    return found


@lru_cache
def _values(rows: int, width: int, types: tuple[str, ...]) -> str:
    """`VALUES ($1, $2), ($3, $4)`, with a cast of each parameter to its column's type if there are types."""

    def row(first: int) -> str:
        names = [f"${number}" for number in range(first, first + width)]
        if types:
            names = [f"CAST({name} AS {kind})" for name, kind in zip(names, types, strict=True)]
        return f"({', '.join(names)})"

    return "VALUES " + ", ".join(row(index * width + 1) for index in range(rows))

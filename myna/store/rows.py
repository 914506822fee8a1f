"""Queries, SELECT lists of row structs, and statements for many rows: on SQLite a list of VALUES, on
PostgreSQL an array for each column.
"""

from collections.abc import Awaitable, Callable, Sequence
from functools import lru_cache
from itertools import chain
from typing import Any, Protocol

from msgspec import Struct

Row = Sequence[Any]
Fetch = Callable[..., Awaitable[Sequence[Row]]]


class Queries(Protocol):
    """A connection, or a pool of them, that runs queries."""

    ascii_only: str
    """Suffix of a text in `lower(…)`, so that ASCII letters alone are changed, as in `same_email`."""

    async def fetch(self, sql: str, *args: object) -> Sequence[Row]: ...


ID_MAX = 2**63 - 1
"""Above every id."""
ROWS_MAX = 64
"""How many rows a list of VALUES has, or a lower power of two: few sizes, so all statements stay prepared."""


async def in_values(fetch: Fetch, head: str, rows: Sequence[Row], tail: str) -> list[Row]:
    """Runs `head`, the rows, and `tail`, in as many statements as it takes. Returns the rows of all."""
    found: list[Row] = []
    begin = 0
    while left := len(rows) - begin:
        size = min(ROWS_MAX, 1 << left.bit_length() - 1)
        chunk = rows[begin : begin + size]
        found += await fetch(f"{head} {_values(size, len(chunk[0]))} {tail}", *chain.from_iterable(chunk))
        begin += size
    return found


@lru_cache
def _values(rows: int, width: int) -> str:
    """`VALUES ($1, $2), ($3, $4)`."""

    def row(first: int) -> str:
        return f"({', '.join(f'${number}' for number in range(first, first + width))})"

    return "VALUES " + ", ".join(row(index * width + 1) for index in range(rows))


async def in_arrays(
    fetch: Fetch, head: str, rows: Sequence[Row], tail: str, types: Sequence[str]
) -> Sequence[Row]:
    """Runs one statement: `head`, a SELECT of the rows, and `tail`. `types` has the type of each column."""
    if not rows:
        return []
    return await fetch(f"{head} {_arrays(tuple(types))} {tail}", *map(list, zip(*rows, strict=True)))


@lru_cache
def _arrays(types: tuple[str, ...]) -> str:
    """`SELECT * FROM unnest(CAST($1 AS bigint[]))`."""
    arrays = [f"CAST(${number} AS {kind}[])" for number, kind in enumerate(types, 1)]
    return f"SELECT * FROM unnest({', '.join(arrays)})"


def columns(shape: type[Struct], table: str = "", **computed: str) -> str:
    """The SELECT list for rows that become `shape(*row)`: a column for each field, in the struct's order.

    A field is the column of its name, with the prefix `table`, or its SQL expression in `computed`. Raises
    TypeError if `computed` has a name that is no field.
    """
    fields = shape.__struct_fields__
    if unknown := computed.keys() - set(fields):
        raise TypeError(f"{shape.__name__} has no field {', '.join(sorted(unknown))}")
    prefix = f"{table}." if table else ""
    return ", ".join(computed.get(field, prefix + field) for field in fields)

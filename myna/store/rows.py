"""Queries, SELECT lists of row structs, and statements for many rows: on SQLite a list of VALUES, on
PostgreSQL an array for each column.
"""

from collections.abc import Awaitable, Callable, Iterator, Sequence, Sized
from functools import lru_cache
from itertools import chain, count
from typing import Any, Protocol, TypeVar

from msgspec import Struct

S = TypeVar("S", bound=Struct)
V = TypeVar("V", int, str, bytes)
W = TypeVar("W", int, str, bytes)
ID_MAX = 2**63 - 1
"""Above every id."""
Row = Sequence[Any]
Fetch = Callable[..., Awaitable[Sequence[Row]]]


class Queries(Protocol):
    """A connection, or a pool of them, that runs queries."""

    ascii_only: str
    """Suffix of a text in `lower(…)`, so that ASCII letters alone are changed, as in `same_email`."""

    async def fetch(self, sql: str, *args: object) -> Sequence[Row]: ...


async def fetch_rows(db: Queries, shape: type[S], sql: str, *args: object) -> list[S]:
    """The rows of a statement that selects or returns the fields of `shape`, in order: see `columns`."""
    return [shape(*row) for row in await db.fetch(sql, *args)]


async def fetch_row(db: Queries, shape: type[S], sql: str, *args: object) -> S | None:
    """The first row of such a statement; None without one."""
    rows = await db.fetch(sql, *args)
    return shape(*rows[0]) if rows else None


async def fetch_value(db: Queries, kind: type[V], sql: str, *args: object) -> V | None:
    """The first value of the first row; None without one, or if it is NULL."""
    rows = await db.fetch(sql, *args)
    return kind(rows[0][0]) if rows and rows[0][0] is not None else None


async def fetch_values(db: Queries, kind: type[V], sql: str, *args: object) -> list[V]:
    """The first value of each row."""
    return [kind(row[0]) for row in await db.fetch(sql, *args)]


async def fetch_only(db: Queries, kind: type[V], sql: str, *args: object) -> V:
    """The value of a statement that always has one row with one value."""
    ((value,),) = await db.fetch(sql, *args)
    return kind(value)


async def fetch_map(db: Queries, key: type[V], value: type[W], sql: str, *args: object) -> dict[V, W]:
    """The second value of each row by its first."""
    return {key(row[0]): value(row[1]) for row in await db.fetch(sql, *args)}


async def has_row(db: Queries, sql: str, *args: object) -> bool:
    """Whether a statement selects or returns a row."""
    return bool(await db.fetch(sql, *args))


class Expression(str):
    """SQL in place of a value."""


NOW = Expression("now_ms()")


async def insert_row(db: Queries, table: str, tail: str = "", /, **values: object) -> Sequence[Row]:
    """Inserts a row of these values by column. Returns the rows of the statement, which ends with `tail`."""
    args = [value for value in values.values() if not isinstance(value, Expression)]
    number = count(1)
    terms = [value if isinstance(value, Expression) else f"${next(number)}" for value in values.values()]
    return await db.fetch(
        f"INSERT INTO {table} ({', '.join(values)}) VALUES ({', '.join(terms)}) {tail}", *args
    )


async def put_row(db: Queries, table: str, key: str, /, **values: object) -> None:
    """Inserts a row, or replaces the values of the row with the same `key`: its columns, with commas."""
    changes = ", ".join(f"{name} = excluded.{name}" for name in values if name not in key.split(", "))
    action = f"UPDATE SET {changes}" if changes else "NOTHING"
    await insert_row(db, table, f"ON CONFLICT ({key}) DO {action}", **values)


def parameters(values: Sized) -> str:
    """A parameter for each value: `$1, $2`."""
    return ", ".join(f"${number}" for number in range(1, len(values) + 1))


ROWS_MAX = 64


def chunks(rows: Sequence[Row]) -> Iterator[Sequence[Row]]:
    """The rows in parts of ROWS_MAX or a lower power of two, for lists of VALUES: with few sizes all
    statements stay prepared and in the processor's cache."""
    begin = 0
    while left := len(rows) - begin:
        size = min(ROWS_MAX, 1 << left.bit_length() - 1)
        yield rows[begin : begin + size]
        begin += size


async def in_values(fetch: Fetch, head: str, rows: Sequence[Row], tail: str) -> list[Row]:
    """Runs `head`, the rows, and `tail`, in as many statements as it takes. Returns the rows of all."""
    found: list[Row] = []
    for chunk in chunks(rows):
        values = _values(len(chunk), len(chunk[0]))
        found += await fetch(f"{head} {values} {tail}", *chain.from_iterable(chunk))
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
    """Runs one statement: `head`, a SELECT of the rows, and `tail`. `types` has the type of each column, none
    if all are bigint."""
    if not rows:
        return []
    arrays = _arrays(tuple(types or ["bigint"] * len(rows[0])))
    return await fetch(f"{head} {arrays} {tail}", *map(list, zip(*rows, strict=True)))


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

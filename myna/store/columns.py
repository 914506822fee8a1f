"""SELECT lists made from the structs of the rows."""

from msgspec import Struct


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

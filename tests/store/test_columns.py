"""A SELECT list has the columns of its struct."""

import pytest
from msgspec import Struct

from myna.store.columns import columns


class Shape(Struct, frozen=True):
    """A row struct for these tests."""

    id: int
    name: str
    size: int


def test_columns_are_the_fields_in_the_structs_order() -> None:
    assert columns(Shape) == "id, name, size"
    assert columns(Shape, "t") == "t.id, t.name, t.size"


def test_a_computed_column_has_the_position_of_its_field() -> None:
    assert columns(Shape, "t", name="a.name", id="now_ms()") == "now_ms(), a.name, t.size"


def test_a_computed_column_without_a_field_is_an_error() -> None:
    with pytest.raises(TypeError, match="Shape has no field nam"):
        columns(Shape, nam="a.name")

"""Charts keep their labels apart and their values whole, whatever the width of the window."""

import re

import pytest

from myna.office.charts import short


def labels(chart: str, window: str) -> list[tuple[float, str, str]]:
    """The place in percent, the anchor and the text of each label below the axis."""
    found = re.findall(
        rf'<text x="([\d.]+)%" y="[\d.]+" text-anchor="(\w+)" class="{window}">([^<]*)</text>', chart
    )
    return [(float(x), anchor, text) for x, anchor, text in found]


@pytest.mark.parametrize(
    ("value", "text"), [(0, "0"), (9_999_999, "9,999,999"), (12_500_000, "12.5M"), (2**53, "9,007T")]
)
def test_large_values_are_short(value: int, text: str) -> None:
    assert short(value) == text

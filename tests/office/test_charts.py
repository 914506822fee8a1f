"""Charts keep their labels apart and their values whole, whatever the width of the window."""

import re

import pytest

from myna.office.charts import Series, Step, short, stacked_bars, ticks, waterfall, width_px

YEAR = [f"2026-{month:02}-{day:02}" for month in range(1, 13) for day in range(1, 31)]
HOURS = [f"2026-11-26 {hour:02}:00" for hour in range(24)]


def labels(chart: str, window: str) -> list[tuple[float, str, str]]:
    """The place in percent, the anchor and the text of each label below the axis."""
    found = re.findall(
        rf'<text x="([\d.]+)%" y="[\d.]+" text-anchor="(\w+)" class="{window}">([^<]*)</text>', chart
    )
    return [(float(x), anchor, text) for x, anchor, text in found]


@pytest.mark.parametrize("names", [YEAR, HOURS, [name[-5:] for name in HOURS]])
@pytest.mark.parametrize(("window", "width"), [("narrow", 270), ("wide", 510)])
def test_labels_below_the_axis_do_not_overlap_nor_leave_the_picture(
    names: list[str], window: str, width: int
) -> None:
    chart = stacked_bars(names, [Series("laptop", range(len(names)))], "Units")
    found = labels(chart, window)
    assert len(found) >= 2
    edges = []
    for x, anchor, text in found:
        begin = x * width / 100 - width_px(text) * {"start": 0, "middle": 0.5, "end": 1}[anchor]
        edges += [begin, begin + width_px(text)]
    assert edges == sorted(edges) and edges[0] >= 0 and edges[-1] <= width + 0.5


@pytest.mark.parametrize(
    ("value", "text"), [(0, "0"), (9_999_999, "9,999,999"), (12_500_000, "12.5M"), (2**53, "9,007T")]
)
def test_large_values_are_short(value: int, text: str) -> None:
    assert short(value) == text


def test_the_axis_is_as_wide_as_its_largest_value() -> None:
    chart = waterfall([Step("start"), Step("granted", 9_000_000)], "The month")
    axis = re.search(r'<svg width="(\d+)"', chart)
    assert axis and int(axis[1]) >= width_px("10,000,000") - 20
    large = re.search(r'<svg width="(\d+)".*?>200M<', waterfall([Step("a"), Step("b", 200_000_000)], ""))
    assert large and int(large[1]) >= 34  # as browsers draw 200M
    assert ">+9,000,000<" in chart and "<title>granted: +9,000,000</title>" in chart


def test_the_last_label_is_always_shown() -> None:
    assert ticks(365, 50, 270)[-1] == 364
    assert ticks(3, 50, 510) == [0, 1, 2]

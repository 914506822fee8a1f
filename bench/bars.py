"""Calls a second of each contender as horizontal bars."""

from collections.abc import Sequence
from typing import NamedTuple

from pictures import svg

WIDTH, ROW, TOP, BOTTOM = 720, 34, 44, 14
LABELS, FIGURES = 220, 170


class Bar(NamedTuple):
    """One contender; `ours` is drawn in the strong colour."""

    name: str
    calls_s: float
    note: str
    ours: bool


def picture(title: str, bars: Sequence[Bar]) -> str:
    """The bars on one linear scale, the first on top."""
    most = max(bar.calls_s for bar in bars)
    parts = [svg.text(16, 26, title, more='font-size="14" font-weight="bold"')]
    for number, bar in enumerate(bars):
        y = TOP + number * ROW
        calls = f"{bar.calls_s:,.0f}"
        length = max(1.0, bar.calls_s / most * (WIDTH - LABELS - FIGURES))
        parts += [
            svg.text(LABELS - 10, y + 17, bar.name, anchor="end"),
            svg.box(LABELS, y + 3, length, ROW - 12, "bar" if bar.ours else "other"),
            svg.text(LABELS + length + 8, y + 17, calls, more='font-weight="bold"'),
            svg.text(LABELS + length + 18 + 8 * len(calls), y + 17, bar.note, "faint"),
        ]
    return svg.document(WIDTH, TOP + ROW * len(bars) + BOTTOM, parts)

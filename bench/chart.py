"""Small line charts as SVG, on logarithmic axes; no library."""

import math
from collections.abc import Mapping, Sequence
from html import escape
from typing import NamedTuple

WIDTH, HEIGHT = 360, 220
LEFT, RIGHT, TOP, BOTTOM = 56, 14, 34, 34
COLUMNS = 2
NAME_WIDTH = 96
COLOURS = ("#1f6feb", "#bc4c00", "#1a7f37", "#8250df", "#cf222e", "#57606a")

Points = Sequence[tuple[float, float]]


class Chart(NamedTuple):
    """Lines by name over one x axis; all values above 0."""

    title: str
    x: str
    lines: Mapping[str, Points]


def picture(charts: Sequence[Chart]) -> str:
    """All charts on one SVG, two in a row."""
    rows = math.ceil(len(charts) / COLUMNS)
    placed = [
        f'<g transform="translate({number % COLUMNS * WIDTH},{number // COLUMNS * HEIGHT})">'
        f"{_drawn(chart)}</g>"
        for number, chart in enumerate(charts)
    ]
    size = f'width="{WIDTH * COLUMNS}" height="{HEIGHT * rows}"'
    view = f'viewBox="0 0 {WIDTH * COLUMNS} {HEIGHT * rows}"'
    style = 'font-family="sans-serif" font-size="10"'
    ground = '<rect width="100%" height="100%" fill="white"/>'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} {view} {style}>'
    return "\n".join([head, ground, *placed, "</svg>"]) + "\n"


def decades(values: Sequence[float]) -> tuple[int, int]:
    """The powers of ten that enclose all values; at least one decade."""
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    return low, max(high, low + 1)


def place(value: float, span: tuple[int, int], start: float, end: float) -> float:
    """The position of a value between `start` and `end`."""
    return start + (math.log10(value) - span[0]) / (span[1] - span[0]) * (end - start)


def _drawn(chart: Chart) -> str:
    points = [point for line in chart.lines.values() for point in line]
    if not points:
        return ""
    xs, ys = decades([x for x, _ in points]), decades([y for _, y in points])
    parts = [_text(LEFT, 14, chart.title, "font-weight='bold'"), _text(WIDTH / 2, HEIGHT - 4, chart.x)]
    for power in range(xs[0], xs[1] + 1):
        x = place(10.0**power, xs, LEFT, WIDTH - RIGHT)
        parts += [_line(x, TOP, x, HEIGHT - BOTTOM), _text(x - 8, HEIGHT - BOTTOM + 14, _number(power))]
    for power in range(ys[0], ys[1] + 1):
        y = place(10.0**power, ys, HEIGHT - BOTTOM, TOP)
        parts += [_line(LEFT, y, WIDTH - RIGHT, y), _text(4, y + 3, _number(power))]
    step = min(NAME_WIDTH, (WIDTH - LEFT) / len(chart.lines))
    for number, (name, line) in enumerate(chart.lines.items()):
        colour = COLOURS[number % len(COLOURS)]
        path = " ".join(
            f"{place(x, xs, LEFT, WIDTH - RIGHT):.1f},{place(y, ys, HEIGHT - BOTTOM, TOP):.1f}"
            for x, y in sorted(line)
        )
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        parts.append(_text(LEFT + number * step, 28, name, f"fill='{colour}'"))
    return "".join(parts)


def _line(x1: float, y1: float, x2: float, y2: float) -> str:
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="#d0d7de"/>'


def _text(x: float, y: float, text: str, more: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" {more}>{escape(text)}</text>'


def _number(power: int) -> str:
    return f"{10**power:,}" if 0 <= power <= 4 else f"{10.0**power:g}" if power < 0 else f"10^{power}"

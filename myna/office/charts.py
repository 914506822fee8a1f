"""Charts as SVG, made by the server: no script and no inline style.

Every bar has a `<title>` with its exact figure. A page shows the same figures in a table, for readers and for
printing. Bars begin at zero. Colours are the classes `s1` to `s6` of the style sheet.
"""

from collections.abc import Sequence
from itertools import accumulate

from markupsafe import Markup
from msgspec import Struct

SERIES_MAX = 6
"""As many colours can be told apart."""
_WIDTH = 880
_TOP, _BOTTOM, _LEFT = 14, 20, 52


class Series(Struct, frozen=True):
    """Values of one thing, one for each label of the chart."""

    name: str
    values: Sequence[int]


class Step(Struct, frozen=True):
    """A step of a waterfall: a change, or a total (`change` None) of what was added up before."""

    name: str
    change: int | None = None


def stacked_bars(labels: Sequence[str], series: Sequence[Series], title: str, height: int = 180) -> Markup:
    """One bar for each label, with the series on top of each other. Series after the fifth are one."""
    shown = limited(series)
    totals = [sum(one.values[index] for one in shown) for index in range(len(labels))]
    top = nice_top(max(totals, default=0))
    plot = height - _TOP - _BOTTOM
    step = (_WIDTH - _LEFT) / max(1, len(labels))
    parts = [_grid(top, height)]
    for index, label in enumerate(labels):
        x = _LEFT + index * step
        lines = [f"{one.name}: {one.values[index]:,}" for one in shown if one.values[index]]
        hint = "\n".join([f"{label}: {totals[index]:,}", *(lines if len(shown) > 1 else [])])
        bottoms = accumulate((one.values[index] for one in shown), initial=0)
        rects = [
            _rect(
                x + step * 0.12,
                height - _BOTTOM - (below + value) / top * plot,
                step * 0.76,
                value / top * plot,
                n,
            )
            for n, (value, below) in enumerate(
                zip((one.values[index] for one in shown), bottoms, strict=False), start=1
            )
            if value
        ]
        hover = Markup('<rect x="{:.1f}" y="0" width="{:.1f}" height="{}" fill="transparent"/>').format(
            x, step, height
        )
        parts.append(Markup("<g><title>{}</title>{}{}</g>").format(hint, hover, Markup("").join(rects)))
    parts += [_tick(_LEFT + (i + 0.5) * step, height - 5, labels[i]) for i in ticks(len(labels))]
    if totals and totals[-1]:
        y = height - _BOTTOM - totals[-1] / top * plot - 4
        parts.append(_label(_WIDTH, max(10, y), f"{totals[-1]:,}", "end"))
    return _svg(_WIDTH, height, title, parts)


def limited(series: Sequence[Series]) -> list[Series]:
    """At most SERIES_MAX series, the largest first; the last one is the sum of the others."""
    ranked = sorted(series, key=lambda one: -sum(one.values))
    if len(ranked) <= SERIES_MAX:
        return ranked
    head, rest = ranked[: SERIES_MAX - 1], ranked[SERIES_MAX - 1 :]
    others = [sum(values) for values in zip(*(one.values for one in rest), strict=True)]
    return [*head, Series(f"+{len(rest)}", others)]


def sparkline(values: Sequence[int], title: str, top: int = 0) -> Markup:
    """Small bars without axes. Days without a value have a thin line. `top` is the value of a full bar, by
    default the largest one; charts that are compared share it."""
    top = top or max(values, default=0) or 1
    step = 96 / max(1, len(values))
    parts = [
        Markup('<rect x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}"{}/>').format(
            index * step,
            24 - max(1.0, value / top * 23),
            step * 0.72,
            max(1.0, value / top * 23),
            Markup("") if value else Markup(' class="none"'),
        )
        for index, value in enumerate(values)
    ]
    return Markup('<svg class="spark" viewBox="0 0 96 24" role="img"><title>{}</title>{}</svg>').format(
        title, Markup("").join(parts)
    )


def small_bars(labels: Sequence[str], values: Sequence[int], title: str, top: int = 0) -> Markup:
    """Bars without axes, each with its label and exact value on hover: a histogram, or the hours of a day.
    `top` is the value of a full bar, by default the largest one."""
    top = top or max(values, default=0) or 1
    step = 168 / max(1, len(values))
    parts = []
    for index, (label, value) in enumerate(zip(labels, values, strict=True)):
        height = max(1.0, value / top * 31)
        hover = Markup('<rect x="{:.1f}" y="0" width="{:.1f}" height="32" class="hover"/>').format(
            index * step, step
        )
        bar = Markup('<rect x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}"{}/>').format(
            index * step, 32 - height, step * 0.8, height, Markup("") if value else Markup(' class="none"')
        )
        parts.append(Markup("<g><title>{}: {:,}</title>{}{}</g>").format(label, value, hover, bar))
    return Markup('<svg class="spark wide" viewBox="0 0 168 32" role="img" aria-label="{}">{}</svg>').format(
        title, Markup("").join(parts)
    )


def waterfall(steps: Sequence[Step], title: str, height: int = 180, start: int = 0) -> Markup:
    """How a total came about: a total begins at zero, a change at the end of the previous step."""
    levels: list[tuple[Step, int, int]] = []
    level = start
    for one in steps:
        begin = level if one.change is not None else 0
        level += one.change or 0
        levels.append((one, begin, level))
    top = nice_top(max((max(begin, end) for _, begin, end in levels), default=0))
    plot = height - _TOP - _BOTTOM
    step = (_WIDTH - _LEFT) / max(1, len(steps))
    parts = [_grid(top, height)]
    for index, (one, begin, end) in enumerate(levels):
        low, high = sorted((begin, end))
        text = f"{one.change:+,}" if one.change is not None else f"{end:,}"
        colour = 6 if one.change is None else 3 if one.change >= 0 else 5
        y = height - _BOTTOM - high / top * plot
        rect = _rect(
            _LEFT + index * step + step * 0.2, y, step * 0.6, max(1.0, (high - low) / top * plot), colour
        )
        parts.append(Markup("<g><title>{}: {}</title>{}</g>").format(one.name, text, rect))
        middle = _LEFT + (index + 0.5) * step
        parts.append(_label(middle, max(10, y - 4), text, "middle"))
        parts.append(_label(middle, height - 5, one.name, "middle"))
    return _svg(_WIDTH, height, title, parts)


def nice_top(largest: int) -> int:
    """The end of the axis: the next of 1, 2, 4, 5 and 10 times a power of ten, at least 4."""
    if largest <= 4:
        return 4
    power = int(10 ** (len(str(largest)) - 1))
    return min(factor * power for factor in (1, 2, 4, 5, 10) if factor * power >= largest)


def ticks(count: int) -> list[int]:
    """Which of `count` labels are shown: at most eight, evenly spaced, from the last one backwards."""
    every = -(-count // 8) or 1
    return list(range(count - 1, -1, -every))[::-1]


def _grid(top: int, height: int) -> Markup:
    lines = []
    for quarter in (0, 2, 4):
        y = height - _BOTTOM - quarter / 4 * (height - _TOP - _BOTTOM)
        lines.append(
            Markup('<line class="grid" x1="{}" x2="{}" y1="{:.1f}" y2="{:.1f}"/>').format(_LEFT, _WIDTH, y, y)
        )
        lines.append(_label(_LEFT - 8, y + 4, f"{top * quarter // 4:,}", "end"))
    return Markup("").join(lines)


def _rect(x: float, y: float, width: float, height: float, colour: int) -> Markup:
    return Markup('<rect x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}" rx="1" class="s{}"/>').format(
        x, y, width, height, colour
    )


def _label(x: float, y: float, text: str, anchor: str) -> Markup:
    return Markup('<text x="{:.1f}" y="{:.1f}" text-anchor="{}">{}</text>').format(x, y, anchor, text)


def _tick(x: float, y: float, text: str) -> Markup:
    """A label below the axis, in full within the picture."""
    half = len(text) * 3.4
    return _label(min(max(x, half), _WIDTH - half), y, text, "middle")


def _svg(width: int, height: int, title: str, parts: Sequence[Markup]) -> Markup:
    return Markup('<svg class="chart" viewBox="0 0 {} {}" role="img" aria-label="{}">{}</svg>').format(
        width, height, title, Markup("").join(parts)
    )

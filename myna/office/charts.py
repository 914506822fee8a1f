"""Charts as SVG, made by the server: no script and no inline style.

A chart is as wide as its place, without scaling its text: what lies along the time is placed in percent, and
the axis of units is an SVG of its own beside it. The labels below it are chosen twice, for phones and for
wider windows, by how many fit.

Every bar has a `<title>` with its exact figure. A page shows the same figures in a table, for readers and for
printing. Bars begin at zero. Colours are the classes `s1` to `s6` of the style sheet.
"""

import unicodedata
from collections.abc import Sequence
from itertools import accumulate

from markupsafe import Markup
from msgspec import Struct

SERIES_MAX = 6
"""As many colours can be told apart."""
_TOP, _BOTTOM = 16, 20
_PLACES = {"narrow": 270, "wide": 510}
"""The least width of the bars in px, on phones and in wider windows."""
_CHAR_PX, _WIDE_PX, _GAP_PX = 7.7, 12, 8
_FULL_MAX = 10_000_000
"""Axes and waterfalls show larger values in short."""
_SHORT = ((10**12, "T"), (10**9, "B"), (10**6, "M"))


class Series(Struct, frozen=True):
    """Values of one thing, one for each label of the chart."""

    name: str
    values: Sequence[int]


class Step(Struct, frozen=True):
    """A step of a waterfall: a change, or a total (`change` None) of what was added up before."""

    name: str
    change: int | None = None


def stacked_bars(
    labels: Sequence[str],
    series: Sequence[Series],
    title: str,
    height: int = 180,
    ticks: Sequence[str] = (),
) -> Markup:
    """One bar for each label, with the series on top of each other. Series after the fifth are one. `ticks`
    are shorter labels for the axis."""
    shown = limited(series)
    totals = [sum(one.values[index] for one in shown) for index in range(len(labels))]
    top = nice_top(max(totals, default=0))
    plot = height - _TOP - _BOTTOM
    step = 100 / max(1, len(labels))
    parts = []
    for index, label in enumerate(labels):
        x = index * step
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
        hover = Markup('<rect x="{:.3f}%" y="0" width="{:.3f}%" height="{}" fill="transparent"/>').format(
            x, step, height
        )
        parts.append(Markup("<g><title>{}</title>{}{}</g>").format(hint, hover, Markup("").join(rects)))
    parts += _ticks(ticks or labels, height - 5)
    if totals and totals[-1]:
        y = height - _BOTTOM - totals[-1] / top * plot - 4
        parts.append(_label(100, max(11, y), short(totals[-1]), "end"))
    return _svg(top, height, title, parts)


def limited(series: Sequence[Series]) -> list[Series]:
    """At most SERIES_MAX series, the largest first; the last one is the sum of the others."""
    ranked = sorted(series, key=lambda one: -sum(one.values))
    if len(ranked) <= SERIES_MAX:
        return ranked
    head, rest = ranked[: SERIES_MAX - 1], ranked[SERIES_MAX - 1 :]
    others = [sum(values) for values in zip(*(one.values for one in rest), strict=True)]
    return [*head, Series(f"+{len(rest)}", others)]


def small_bars(values: Sequence[int], title: str, top: int = 0, labels: Sequence[str] = ()) -> Markup:
    """Bars without axes; a value of 0 has a thin line. With `labels`, as for a histogram or the hours of a
    day, the chart is larger, and each bar has its label and exact value on hover. `top` is the value of a
    full bar, by default the largest one; charts that are compared share it."""
    top = top or max(values, default=0) or 1
    width, height = (168, 32) if labels else (96, 24)
    step = width / max(1, len(values))
    parts = []
    for index, value in enumerate(values):
        bar = max(1.0, value / top * (height - 1))
        place = index * step, height - bar, step * 0.8, bar
        rect = Markup('<rect x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}"{}/>').format(
            *place, Markup("") if value else Markup(' class="none"')
        )
        if labels:
            hover = Markup('<rect x="{:.1f}" y="0" width="{:.1f}" height="{}" class="hover"/>')
            hover = hover.format(index * step, step, height)
            rect = Markup("<g><title>{}: {:,}</title>{}{}</g>").format(labels[index], value, hover, rect)
        parts.append(rect)
    return Markup('<svg class="spark{}" viewBox="0 0 {} {}" role="img"><title>{}</title>{}</svg>').format(
        " wide" if labels else "", width, height, title, Markup("").join(parts)
    )


def waterfall(steps: Sequence[Step], title: str, height: int = 192, start: int = 0) -> Markup:
    """How a total came about: a total begins at zero, a change at the end of the previous step."""
    levels: list[tuple[Step, int, int]] = []
    level = start
    for one in steps:
        begin = level if one.change is not None else 0
        level += one.change or 0
        levels.append((one, begin, level))
    top = nice_top(max((max(begin, end) for _, begin, end in levels), default=0))
    bottom = _BOTTOM + 12
    plot = height - _TOP - bottom
    step = 100 / max(1, len(steps))
    stagger = 13 if max(width_px(one.name) for one in steps) > _PLACES["narrow"] / len(steps) else 0
    parts = []
    for index, (one, begin, end) in enumerate(levels):
        low, high = sorted((begin, end))
        text = f"{one.change:+,}" if one.change is not None else f"{end:,}"
        colour = 6 if one.change is None else 3 if one.change >= 0 else 5
        y = height - bottom - high / top * plot
        rect = _rect(index * step + step * 0.2, y, step * 0.6, max(1.0, (high - low) / top * plot), colour)
        parts.append(Markup("<g><title>{}: {}</title>{}</g>").format(one.name, text, rect))
        middle = (index + 0.5) * step
        said = short(one.change, sign="+") if one.change is not None else short(end)
        parts.append(_label(middle, max(11, y - 4), said, "middle"))
        parts.append(_label(middle, height - 17, one.name, "middle", "wide"))
        parts.append(_label(middle, height - 17 + index % 2 * stagger, one.name, "middle", "narrow"))
    return _svg(top, height, title, parts, bottom)


def nice_top(largest: int) -> int:
    """The end of the axis: the next of 1, 2, 4, 5 and 10 times a power of ten, at least 4."""
    if largest <= 4:
        return 4
    power = int(10 ** (len(str(largest)) - 1))
    return min(factor * power for factor in (1, 2, 4, 5, 10) if factor * power >= largest)


def short(value: int, sign: str = "") -> str:
    """A value as an axis shows it: exact below ten millions, then as 12.5M."""
    if abs(value) < _FULL_MAX:
        return f"{value:{sign},}"
    size, letter = next((size, letter) for size, letter in _SHORT if abs(value) >= size)
    found = value / size
    return f"{found:{sign},.0f}{letter}" if abs(found) >= 1000 else f"{found:{sign}.3g}{letter}"


def ticks(count: int, label_px: float, place_px: float) -> list[int]:
    """Which of `count` labels are shown: as many as fit, evenly spaced, from the last one backwards."""
    every = max(1, -(-(label_px + _GAP_PX) * count // place_px))
    return list(range(count - 1, -1, -int(every)))[::-1]


def width_px(text: str) -> float:
    """About how wide a text of 12 px is."""
    wide = (char.isupper() or unicodedata.east_asian_width(char) in "WF" for char in text)
    return sum(_WIDE_PX if is_wide else _CHAR_PX for is_wide in wide)


def _ticks(labels: Sequence[str], y: float) -> list[Markup]:
    """The labels below the axis, for either width."""
    found = []
    widest = max(map(width_px, labels), default=0.0)
    for name, place_px in _PLACES.items():
        # The last one ends where its bar ends, if that is narrower.
        room_px = widest * 1.5 if place_px < widest * len(labels) else widest
        for index in ticks(len(labels), room_px, place_px):
            x, half = (index + 0.5) * 100 / len(labels), widest / 2 * 100 / place_px
            anchor = "start" if x < half else "end" if x > 100 - half else "middle"
            x = {"start": 0, "end": 100}.get(anchor, x)
            found.append(_label(x, y, labels[index], anchor, name))
    return found


def _rect(x: float, y: float, width: float, height: float, colour: int) -> Markup:
    """`x` and `width` in percent, the others in px. A chart of a year has thousands, and numbers need no
    escaping, which takes most of the time."""
    place = f'x="{x:.3f}%" y="{y:.1f}" width="{width:.3f}%" height="{height:.1f}"'
    return Markup(f'<rect {place} rx="1" class="s{colour}"/>')  # noqa: S704  # numbers alone


def _label(x: float, y: float, text: str, anchor: str, name: str = "") -> Markup:
    """`x` in percent, `y` in px."""
    class_name = Markup(' class="{}"').format(name) if name else ""
    return Markup('<text x="{:.3f}%" y="{:.1f}" text-anchor="{}"{}>{}</text>').format(
        x, y, anchor, class_name, text
    )


def _svg(top: int, height: int, title: str, parts: Sequence[Markup], bottom: int = _BOTTOM) -> Markup:
    """The axis and, beside it, what lies along the time."""
    marks = [
        (height - bottom - quarter / 4 * (height - _TOP - bottom), short(top * quarter // 4))
        for quarter in (0, 2, 4)
    ]
    axis = Markup("").join(_label(100, y + 4, text, "end") for y, text in marks)
    grid = Markup("").join(
        Markup('<line class="grid" x1="0" x2="100%" y1="{:.1f}" y2="{:.1f}"/>').format(y, y) for y, _ in marks
    )
    return Markup(
        '<div class="chart"><svg width="{:.0f}" height="{}" aria-hidden="true">{}</svg>'
        '<svg width="100%" height="{}" role="img" aria-label="{}">{}{}</svg></div>'
    ).format(
        max(width_px(text) for _, text in marks), height, axis, height, title, grid, Markup("").join(parts)
    )

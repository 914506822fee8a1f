"""Boxes, lines and text as SVG that is readable on light and on dark pages; no library.

Sizes are in pixels. The output is deterministic: no time, no random ids, fixed decimals.
"""

from collections.abc import Sequence
from html import escape

FONT = "system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', sans-serif"
LIGHT = {
    "ground": "fill:#ffffff", "box": "fill:#f6f8fa;stroke:#d1d9e0", "strong": "fill:#ddf4ff;stroke:#54aeff",
    "ink": "fill:#1f2328", "faint": "fill:#59636e", "rule": "fill:none;stroke:#d1d9e0",
    "arrow": "fill:none;stroke:#59636e", "tip": "fill:#59636e",
    "bar": "fill:#54aeff", "other": "fill:#afb8c1", "web": "fill:#ddf4ff;stroke:#54aeff",
    "database": "fill:#dafbe1;stroke:#4ac26b",
}  # fmt: skip
DARK = {
    "ground": "fill:#0d1117", "box": "fill:#161b22;stroke:#3d444d", "strong": "fill:#0c2d6b;stroke:#388bfd",
    "ink": "fill:#e6edf3", "faint": "fill:#9198a1", "rule": "fill:none;stroke:#3d444d",
    "arrow": "fill:none;stroke:#9198a1", "tip": "fill:#9198a1",
    "bar": "fill:#388bfd", "other": "fill:#656c76", "web": "fill:#0c2d6b;stroke:#388bfd",
    "database": "fill:#033a16;stroke:#2ea043",
}  # fmt: skip
RADIUS, TIP = 6, 5


def document(width: int, height: int, parts: Sequence[str]) -> str:
    """A whole SVG. Its colours follow the reader's colour scheme."""
    size = f'width="{width}" height="{height}" viewBox="0 0 {width} {height}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="{FONT}" font-size="12">'
    dark = f"@media (prefers-color-scheme: dark) {{{_rules(DARK)}}}"
    ground = '<rect class="ground" width="100%" height="100%" rx="8"/>'
    return "\n".join([head, f"<style>{_rules(LIGHT)} {dark}</style>", ground, *parts, "</svg>"]) + "\n"


def box(x: float, y: float, width: float, height: float, kind: str = "box") -> str:
    """A rectangle with rounded corners; `kind` is a class of the style."""
    place = f'x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}"'
    return f'<rect class="{kind}" {place} rx="{min(RADIUS, width / 8):.1f}"/>'


def text(x: float, y: float, words: str, kind: str = "ink", anchor: str = "start", more: str = "") -> str:
    """One line of text with its baseline at `y`."""
    place = f'x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"'
    return f'<text class="{kind}" {place}{more and " " + more}>{escape(words, quote=False)}</text>'


def arrow(x1: float, y1: float, x2: float, y2: float) -> str:
    """A horizontal or vertical line with a tip at its second end."""
    line = f'<path class="arrow" d="M{x1:.1f} {y1:.1f}L{x2:.1f} {y2:.1f}"/>'
    if y1 == y2:
        back = x2 - TIP if x2 > x1 else x2 + TIP
        tip = f"M{x2:.1f} {y2:.1f}L{back:.1f} {y2 - TIP:.1f}L{back:.1f} {y2 + TIP:.1f}Z"
    else:
        back = y2 - TIP if y2 > y1 else y2 + TIP
        tip = f"M{x2:.1f} {y2:.1f}L{x2 - TIP:.1f} {back:.1f}L{x2 + TIP:.1f} {back:.1f}Z"
    return f'{line}<path class="tip" d="{tip}"/>'


def _rules(colours: dict[str, str]) -> str:
    return " ".join(f".{name}{{{style}}}" for name, style in colours.items())

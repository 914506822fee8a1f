"""The modules of `myna`, layer by layer, as the import contracts in pyproject.toml have them."""

import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pictures import svg

CONTRACTS = Path(__file__).parents[1] / "pyproject.toml"
PACKAGE = "myna"
BANDS = {
    "__main__": "entry points", "server": "process", "api": "edges", "actions": "use cases",
    "voices": "domain", "store": "storage", "engines": "engines, I/O", "wire": "foundations",
}  # fmt: skip
"""What the layers from this module's on are called."""
TECHNOLOGY = {"starlette": "web", "apsw": "database"}
"""How a box is drawn that may import a package which others may not."""
NAMES = {"web": "may import Starlette and uvicorn", "database": "may import a database driver"}
WIDTH, LEFT, TOP = 960, 150, 64
BOX_HEIGHT, ROW_GAP, BAND_GAP, BOX_GAP, PADDING = 26, 8, 10, 8, 10
CHARACTER = 7.2
"""Pixels of a character of the font, on the safe side."""


def drawn(contracts: Path = CONTRACTS) -> str:
    """The picture."""
    linter = tomllib.loads(contracts.read_text(encoding="utf-8"))["tool"]["importlinter"]["contracts"]
    layers = _layers(linter)
    allowed = _allowed(linter, layers)
    parts = _head()
    y = float(TOP)
    for layer in layers:
        band = next((BANDS[module] for module in layer if module in BANDS), "")
        if band:
            y += BAND_GAP
            parts += [
                f'<path class="rule" d="M16 {y:.1f}H{WIDTH - 16}"/>',
                svg.text(24, y + ROW_GAP + 17, band, "faint"),
            ]
        y = _row(parts, layer, allowed, y + ROW_GAP)
    return svg.document(WIDTH, int(y) + ROW_GAP + 8, parts)


def _layers(contracts: Sequence[Mapping[str, Any]]) -> list[list[str]]:
    (found,) = [contract for contract in contracts if contract["type"] == "layers"]
    return [layer.split(" | ") for layer in found["layers"]]


def _allowed(contracts: Sequence[Mapping[str, Any]], layers: list[list[str]]) -> dict[str, str]:
    """Which modules the contracts allow to import what TECHNOLOGY names."""
    kinds: dict[str, str] = {}
    for contract in contracts:
        for package in contract.get("forbidden_modules", ()):
            if package in TECHNOLOGY:
                refused = {module.removeprefix(f"{PACKAGE}.") for module in contract["source_modules"]}
                kinds |= {
                    module: TECHNOLOGY[package]
                    for layer in layers
                    for module in layer
                    if module not in refused
                }
    return kinds


def _head() -> list[str]:
    parts = [
        svg.text(24, 32, "Who may import whom", more='font-size="15" font-weight="bold"'),
        svg.text(24, 54, "A module may import those below it, and none in its own row.", "faint"),
    ]
    x = WIDTH - 24.0
    for kind, words in reversed(NAMES.items()):
        x -= len(words) * CHARACTER
        parts += [svg.box(x - 22, 20, 14, 14, kind), svg.text(x, 32, words, "faint")]
        x -= 40
    return parts


def _row(parts: list[str], layer: list[str], allowed: Mapping[str, str], y: float) -> float:
    """Draws the boxes of a layer, in more than one line where they need it; returns where it ends."""
    x = float(LEFT)
    for module in layer:
        width = len(module) * CHARACTER + 2 * PADDING
        if x + width > WIDTH - 16:
            x, y = float(LEFT), y + BOX_HEIGHT + 4
        parts += [
            svg.box(x, y, width, BOX_HEIGHT, allowed.get(module, "box")),
            svg.text(x + width / 2, y + 17, module, anchor="middle"),
        ]
        x += width + BOX_GAP
    return y + BOX_HEIGHT

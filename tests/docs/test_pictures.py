"""The committed pictures are what `python -m pictures` draws, from the import contracts of today."""

import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from pictures import call, layers, svg
from pictures.__main__ import DOCS, PICTURES
from tests.docs.pages import fences

TEXT = "{http://www.w3.org/2000/svg}text"
MODULES = sorted(
    path.stem
    for path in (DOCS.parent / "myna").iterdir()
    if (path.suffix == ".py" and path.stem != "__main__" and path.stem != "__init__")
    or (path / "__init__.py").is_file()
)
CONTRACTS = """
[[tool.importlinter.contracts]]
type = "layers"
layers = ["app", "ledger | voices", "store"]

[[tool.importlinter.contracts]]
type = "forbidden"
source_modules = ["myna.app", "myna.ledger", "myna.voices"]
forbidden_modules = ["apsw"]
"""


def words(picture: str) -> list[str | None]:
    root = ElementTree.fromstring(picture)  # noqa: S314  we wrote it
    return [found.text for found in root.iter(TEXT)]


@pytest.mark.parametrize("name", PICTURES)
def test_a_committed_picture_is_what_the_command_draws(name: str) -> None:
    assert (DOCS / name).read_text(encoding="utf-8") == PICTURES[name]()


@pytest.mark.parametrize("name", PICTURES)
def test_a_picture_is_shown_by_the_architecture_page(name: str) -> None:
    assert f"]({name})" in (DOCS / "architecture.md").read_text(encoding="utf-8")


def test_every_module_is_in_the_picture_once() -> None:
    modules = [*MODULES, "__main__"]
    drawn = words(layers.drawn())
    assert {module: drawn.count(module) for module in modules} == dict.fromkeys(modules, 1)


def test_the_architecture_page_describes_every_module() -> None:
    (listed,) = [fence.text for fence in fences(DOCS / "architecture.md") if fence.text.startswith("myna/")]
    missing = [name for name in MODULES if not re.search(rf"(?<!\w){name}(\.py|/)", listed)]
    assert missing == []


def test_the_picture_of_layers_follows_the_contracts(tmp_path: Path) -> None:
    contracts = tmp_path / "pyproject.toml"
    contracts.write_text(CONTRACTS, encoding="utf-8")
    root = ElementTree.fromstring(layers.drawn(contracts))  # noqa: S314  we wrote it
    heights = {found.text: float(found.get("y", "0")) for found in root.iter(TEXT)}
    assert heights["app"] < heights["ledger"] == heights["voices"] < heights["store"]
    boxes = [found.get("class") for found in root.iter(TEXT.replace("text", "rect"))]
    assert boxes[-4:] == ["box", "box", "box", "database"]


def test_a_picture_has_colours_for_light_and_dark_pages() -> None:
    assert svg.LIGHT.keys() == svg.DARK.keys()
    assert "prefers-color-scheme: dark" in call.drawn()

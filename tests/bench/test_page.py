"""The page and its pictures are written from results; people's words around them stay."""

import xml.etree.ElementTree as ElementTree
from pathlib import Path

import msgspec
import pytest

from bench import page
from bench.chart import Chart, decades, picture, place
from tests.bench import measured

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture
def written(tmp_path: Path) -> Path:
    """A page of our own, between whose marks stands what an earlier run wrote."""
    found = tmp_path / "benchmarks.md"
    found.write_text(f"# Words\n\n{page.BEGIN}\nold figures\n{page.END}\n\nMore words\n", encoding="utf-8")
    return found


def save(folder: Path, name: str, result: object) -> None:
    (folder / f"{name}.json").write_bytes(msgspec.json.encode(result))


def test_figures_replace_figures_and_leave_the_words(written: Path, tmp_path: Path) -> None:
    save(tmp_path, "table", measured.comparison())
    page.write(written, tmp_path)
    page.write(written, tmp_path)
    text = written.read_text(encoding="utf-8")
    assert text.startswith("# Words\n")
    assert text.endswith("\n\nMore words\n")
    assert "old figures" not in text
    assert text.count("## Goals") == 1
    assert "| myna-sqlite | 64 | 7,000 | 0.70 |" in text


def test_a_calls_two_commits_stand_beside_the_bare_ones_where_they_were_timed(
    written: Path, tmp_path: Path
) -> None:
    compared = measured.comparison()
    save(tmp_path, "table", compared)
    page.write(written, tmp_path)
    assert "with no call around them: 2.60 ms, 2.6 bare ones." in written.read_text(encoding="utf-8")
    del compared["commits"]["pair_ms"]
    save(tmp_path, "table", compared)
    page.write(written, tmp_path)
    assert "no call around them" not in written.read_text(encoding="utf-8")


def test_a_contender_that_is_missing_is_named_with_the_reason(written: Path, tmp_path: Path) -> None:
    save(tmp_path, "table", measured.comparison())
    page.write(written, tmp_path)
    text = written.read_text(encoding="utf-8")
    assert "| litellm-keys | missing |" in text
    assert "`litellm-keys` is missing: it can't be had." in text


def test_growth_and_speech_get_tables_and_a_picture(written: Path, tmp_path: Path) -> None:
    save(tmp_path, "grow-sqlite", measured.growth())
    save(tmp_path, "speech", measured.speech())
    page.write(written, tmp_path)
    text = written.read_text(encoding="utf-8")
    assert "| rows | 10,000,000 | 800 |" in text
    assert "| 10,000,000 | 1.00 / 3.00 | 1.00 / 30.00 |" in text
    assert "| POST /tts, 1 core | 8 | 45 | 0.01111 |" in text
    assert "| 8 | 2.00 | 6.00 | 30 |" in text
    drawn = ElementTree.parse(written.with_name(page.PICTURE)).getroot()  # noqa: S314  we wrote it
    assert len(drawn.findall(f"{SVG}g")) == len(measured.growth()["curves"]) + 1


def test_nothing_measured_is_said(written: Path, tmp_path: Path) -> None:
    page.write(written, tmp_path)
    assert written.read_text(encoding="utf-8").count(page.NOT_YET) == 4


def test_a_page_without_its_marks_is_refused(tmp_path: Path) -> None:
    bare = tmp_path / "benchmarks.md"
    bare.write_text("no marks", encoding="utf-8")
    with pytest.raises(ValueError, match="lacks the marks"):
        page.write(bare, tmp_path)


def test_the_projects_own_page_has_its_marks() -> None:
    text = page.PAGE.read_text(encoding="utf-8")
    assert text.index(page.BEGIN) < text.index(page.END)


def test_axes_are_whole_decades_and_points_stand_where_they_belong() -> None:
    assert decades([3, 250]) == (0, 3)
    assert decades([10, 10]) == (1, 2)
    assert place(10, (0, 2), 100, 200) == 150


def test_a_picture_has_a_line_for_each_series_and_escapes_its_names() -> None:
    chart = Chart("a < b", "x", {"one": [(1, 1), (100, 10)], "two": [(1, 5)]})
    drawn = ElementTree.fromstring(picture([chart, chart, chart]))  # noqa: S314  we wrote it
    assert len(drawn.findall(f"{SVG}g")) == 3
    assert len(drawn.findall(f".//{SVG}polyline")) == 6

"""The page, its picture and the reports are written from results; the text around the figures is kept."""

import shutil
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import msgspec
import pytest

from bench import page, reports
from bench.chart import Chart, decades, picture, place
from bench.results import RESULTS
from tests.bench import measured

SVG = "{http://www.w3.org/2000/svg}"
TABLE = "1970-01-01-abc-table.md"
WORDS_MAX = 900
"""The words that an operator reads in three minutes."""


@pytest.fixture
def written(tmp_path: Path) -> Path:
    """A page with the figures of an earlier run between its marks."""
    found = tmp_path / "benchmarks.md"
    found.write_text(f"# Words\n\n{page.BEGIN}\nold figures\n{page.END}\n\nMore words\n", encoding="utf-8")
    return found


def save(folder: Path, name: str, result: object) -> None:
    (folder / f"{name}.json").write_bytes(msgspec.json.encode(result))


def report(folder: Path, name: str) -> str:
    return (folder / name).read_text(encoding="utf-8")


def test_new_figures_replace_old_ones_and_keep_the_text(written: Path, tmp_path: Path) -> None:
    save(tmp_path, "table", measured.comparison())
    page.write(written, tmp_path)
    page.write(written, tmp_path)
    text = written.read_text(encoding="utf-8")
    assert text.startswith("# Words\n")
    assert text.endswith("\n\nMore words\n")
    assert "old figures" not in text
    assert text.count("| Myna, SQLite | 7,000 | 0.70 | 1.0 | 2.0 | 0.10 | 60 |") == 1
    assert (
        "- PostgreSQL, one process: calls/s at 64 connections against the floor: 0.6 (goal: at least 0.65)"
        in text
    )


def test_the_page_shows_the_contenders_side_by_side(written: Path, tmp_path: Path) -> None:
    save(tmp_path, "table", measured.comparison())
    page.write(written, tmp_path)
    drawn = ElementTree.parse(written.with_name(page.PICTURE)).getroot()  # noqa: S314  we wrote it
    widths = {rect.get("class"): float(rect.get("width", "0")) for rect in drawn.findall(f"{SVG}rect")[1:]}
    assert widths["bar"] > 10 * widths["other"]  # PostgreSQL's 6,000 and LiteLLM's 200, the last of each
    words = [text.text for text in drawn.findall(f"{SVG}text")]
    assert {"7,000", "70% of the floor", "LiteLLM proxy", "200"} <= set(words)


def test_a_report_has_every_figure_of_its_run(written: Path, tmp_path: Path) -> None:
    save(tmp_path, "table", measured.comparison())
    page.write(written, tmp_path)
    text = report(tmp_path, TABLE)
    assert "| myna-sqlite | 64 | 7,000 | 0.70 |" in text
    assert "Command: `python -m bench table --rounds 5 --seconds 4`" in text


def test_a_later_run_keeps_the_reports_of_earlier_ones(written: Path, tmp_path: Path) -> None:
    compared = measured.comparison()
    save(tmp_path, "table", compared)
    page.write(written, tmp_path)
    compared["machine"] = measured.MACHINE | {"commit": "def", "time": 86_400}
    save(tmp_path, "table", compared)
    page.write(written, tmp_path)
    index = report(tmp_path, page.INDEX)
    assert index.index("(1970-01-02-def-table.md)") < index.index(f"({TABLE})")
    assert "commit abc" in report(tmp_path, TABLE)


def test_the_two_commits_of_a_call_are_reported_where_they_were_timed(written: Path, tmp_path: Path) -> None:
    compared = measured.comparison()
    save(tmp_path, "table", compared)
    page.write(written, tmp_path)
    assert "alone on one thread: 2.60 ms, 2.6 bare commits." in report(tmp_path, TABLE)
    del compared["commits"]["pair_ms"]
    save(tmp_path, "table", compared)
    page.write(written, tmp_path)
    assert "alone on one thread" not in report(tmp_path, TABLE)


def test_a_missing_contender_is_listed_with_the_reason(written: Path, tmp_path: Path) -> None:
    save(tmp_path, "table", measured.comparison())
    page.write(written, tmp_path)
    text = report(tmp_path, TABLE)
    assert "| litellm-keys | missing |" in text
    assert "`litellm-keys` is missing: it can't be had." in text


def test_growth_and_speech_get_reports_and_a_picture(written: Path, tmp_path: Path) -> None:
    save(tmp_path, "grow-sqlite", measured.growth())
    save(tmp_path, "speech", measured.speech())
    page.write(written, tmp_path)
    grown = report(tmp_path, "1970-01-01-abc-grow-sqlite.md")
    assert "Command: `python -m bench grow --rounds 1 --seconds 1 --full --minutes 10`" in grown
    assert "| rows | 10,000,000 | 800 |" in grown
    assert "| 10,000,000 | 1.00 / 3.00 | 1.00 / 30.00 |" in grown
    spoken = report(tmp_path, "1970-01-01-abc-speech.md")
    assert "| POST /tts, 1 core | 8 | 45 | 0.01111 |" in spoken
    assert "20.0 ms for a sentence, 90.0 ms for 300 characters that begin with it." in spoken
    assert "| 8 | 2.00 | 6.00 | 30 |" in spoken
    curves = tmp_path / "1970-01-01-abc-grow-sqlite.svg"
    assert f"]({curves.name})" in grown
    drawn = ElementTree.parse(curves).getroot()  # noqa: S314  we wrote it
    assert len(drawn.findall(f"{SVG}g")) == len(measured.growth()["curves"]) + 1
    assert "| 10,000,000 rows against 1,000, calls/s | at least 0.9 | 0.8 | — |" in written.read_text("utf-8")


def test_the_neural_voice_gets_a_report(written: Path, tmp_path: Path) -> None:
    save(tmp_path, "neural", measured.neural())
    page.write(written, tmp_path)
    spoken = report(tmp_path, "1970-01-01-abc-neural.md")
    assert "Command: `python -m bench neural --rounds 2 --seconds 20`" in spoken
    assert "| POST /tts, from text to mp3 | 1.100 | 1.100 |" in spoken
    assert "| 2 | 0.360 | 1.80 |" in spoken
    assert "p99 of chat: 2.0 ms without speech, 3.0 ms" in spoken
    assert "| memory of a Kokoro process | at most 450 MB | 420 MB |" in written.read_text("utf-8")


def test_a_page_without_results_says_not_measured(written: Path, tmp_path: Path) -> None:
    page.write(written, tmp_path)
    assert page.NOT_YET in written.read_text(encoding="utf-8")
    assert page.NOT_YET in report(tmp_path, page.INDEX)


def test_a_page_without_its_markers_is_refused(tmp_path: Path) -> None:
    bare = tmp_path / "benchmarks.md"
    bare.write_text("no marks", encoding="utf-8")
    with pytest.raises(ValueError, match="lacks the marks"):
        page.write(bare, tmp_path)


def test_the_committed_page_and_reports_match_the_results(tmp_path: Path) -> None:
    folder = tmp_path / "results"
    shutil.copytree(RESULTS, folder)
    for path in folder.glob("[0-9]*"):
        path.unlink()
    copy = tmp_path / page.PAGE.name
    shutil.copy(page.PAGE, copy)
    page.write(copy, folder)
    assert copy.read_bytes() == page.PAGE.read_bytes()
    assert copy.with_name(page.PICTURE).read_bytes() == page.PAGE.with_name(page.PICTURE).read_bytes()
    for path in folder.glob("[0-9]*"):
        assert path.read_bytes() == (RESULTS / path.name).read_bytes(), path.name
    assert len(list(folder.glob("[0-9]*.md"))) == len(reports.TITLES)


def test_the_index_lists_every_report() -> None:
    index = report(RESULTS, page.INDEX)
    assert all(f"({path.name})" in index for path in RESULTS.glob("[0-9]*.md"))


def test_the_page_is_short_and_names_the_commands() -> None:
    text = page.PAGE.read_text(encoding="utf-8")
    words = [word for word in text.split() if any(map(str.isalnum, word))]  # not the lines of a table
    assert len(words) < WORDS_MAX
    for command in ("setup", "quick", "grow", "speech", "stream", "parts"):
        assert f"make bench-{command}" in text, command
    assert "`make bench` " in text


def test_axes_are_whole_decades_and_points_are_to_scale() -> None:
    assert decades([3, 250]) == (0, 3)
    assert decades([10, 10]) == (1, 2)
    assert place(10, (0, 2), 100, 200) == 150


def test_a_picture_has_a_line_for_each_series_and_escapes_its_names() -> None:
    chart = Chart("a < b", "x", {"one": [(1, 1), (100, 10)], "two": [(1, 5)]})
    drawn = ElementTree.fromstring(picture([chart, chart, chart]))  # noqa: S314  we wrote it
    assert len(drawn.findall(f"{SVG}g")) == 3
    assert len(drawn.findall(f".//{SVG}polyline")) == 6

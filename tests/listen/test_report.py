"""The page and its picture are written from results; the text around the figures is kept."""

import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from bench.results import Machine
from listen import report, results
from listen.measure import pairs_of, planned, short
from listen.results import PLAIN, Heard, Listening
from listen.sentences import ENGLISH, EVERYDAY, GROUPS, LONG
from listen.speakers import ESPEAK, KOKORO, Voice
from tests.docs.pages import ROOT

MANDARIN, AMERICAN = Voice("zf_a", "A", "zh-CN"), Voice("af_b", "B", "en-US")
TINY, TINY_ENGLISH = Voice("zh-female-1", "C", "zh-CN"), Voice("en-us-male-1", "D", "en-US")


def heard(family: str, voice: str, group: str, errors: int, text: str = "text") -> Heard:
    return Heard(family, voice, group, text, "heard", errors, 10, 4.0, 1.0, 1.5, 0.8, -20.0)


def listening() -> Listening:
    return Listening(
        machine=Machine(2, "a processor", 1, "Linux", "3.11.2 (GCC)", "ext4", "abc", 0, {}),
        versions={"onnxruntime": "1.0"},
        pairs={KOKORO: ("zf_a", "af_b"), PLAIN: ("zf_a", "af_b")},
        voices={"zf_a": "zh-CN", "af_b": "en-US"},
        short={"zh": ["text"], "en": ["text"]},
        peak_bytes={"main": 50_000_000, PLAIN: 700_000_000},
        missing={ESPEAK: "no voices"},
        load_average=0.1,
        heard=[
            heard(KOKORO, "zf_a", EVERYDAY, 1),
            heard(KOKORO, "zf_a", EVERYDAY, 2, "another"),
            heard(PLAIN, "zf_a", EVERYDAY, 9),
            heard(KOKORO, "zf_a", ENGLISH, 5, "another"),
            heard(KOKORO, "af_b", ENGLISH, 0),
            heard(KOKORO, "zf_a", LONG, 13, "another"),
        ],
    )


@pytest.fixture
def page(tmp_path: Path) -> Path:
    """A page with the figures of an earlier run between its marks."""
    found = tmp_path / "voices.md"
    found.write_text(
        f"# Words\n\n{report.BEGIN}\nold figures\n{report.END}\n\nMore words\n", encoding="utf-8"
    )
    return found


def test_new_figures_replace_old_ones_and_keep_the_text(page: Path) -> None:
    report.write(listening(), page)
    report.write(listening(), page)
    text = page.read_text(encoding="utf-8")
    assert text.startswith("# Words\n")
    assert text.endswith("\n\nMore words\n")
    assert "old figures" not in text
    assert text.count("1970-01-01, commit abc, 2 cores of a processor, Python 3.11.2; onnxruntime 1.0.") == 1
    assert "| everyday | 2 | 20 | 15.0% | 90.0% | 5% |" in text
    assert "| English | 1 | 10 | 0.0% | — | 2% |" in text
    assert "| English, Mandarin voice |  |  | 50.0% | — |  |" in text
    assert "The load average before the run was 0.1:" in text
    assert "| Myna, Kokoro | 0.25 | 0.2 s | 0.8 s | 1.50 s | 1.50 s |" in text
    assert "| plain library | 700 MB |" in text
    assert "Not measured: Myna, espeak-ng: no voices." in text


def test_the_voices_are_listed_by_how_well_they_are_understood(page: Path) -> None:
    found = listening()
    found.voices["zh-female-1"] = "zh-CN"
    found.short["zh"].append("another")
    found.heard.append(heard(ESPEAK, "zh-female-1", EVERYDAY, 0))
    report.write(found, page)
    lines = [line for line in page.read_text(encoding="utf-8").splitlines() if "LUFS" in line]
    assert lines == [
        "| `zh-female-1` | zh-CN | 0.0% | 0.0% | — | — | -20.0 LUFS |",
        "| `zf_a` | zh-CN | 45.0% | 15.0% | 100.0% | 50.0% | -20.0 LUFS |",
        "| `af_b` | en-US | 0.0% | -20.0 LUFS |",
    ]


def test_the_errors_of_the_best_voice_of_each_text_remain() -> None:
    found = listening()
    found.voices["zh-female-1"] = "zh-CN"
    found.short["zh"].append("another")
    found.heard.append(heard(ESPEAK, "zh-female-1", EVERYDAY, 3))
    assert report.heard_best(found, "zh") == (1 + 2, 20)
    assert report.heard_best(found, "en") == (0, 10)


def test_a_sentence_is_at_most_misheard_as_a_whole(page: Path) -> None:
    report.write(listening(), page)
    drawn = ElementTree.parse(page.with_name(report.PICTURE)).getroot()  # noqa: S314  we wrote it
    words = [text.text for text in drawn.iter("{http://www.w3.org/2000/svg}text")]
    assert {"15.0%", "90.0%", "100.0%", "the plain library", *GROUPS} <= set(words)
    widths = [
        float(rect.get("width", "0").rstrip("%")) for rect in drawn.iter("{http://www.w3.org/2000/svg}rect")
    ]
    assert max(widths) <= report.WIDTH - report.LEFT - report.RIGHT


def test_a_page_without_its_marks_is_not_overwritten(tmp_path: Path) -> None:
    page = tmp_path / "voices.md"
    page.write_text(report.BEGIN, encoding="utf-8")
    with pytest.raises(ValueError, match="lacks the marks"):
        report.write(listening(), page)
    assert page.read_text(encoding="utf-8") == report.BEGIN


def test_the_page_of_the_voices_has_the_marks() -> None:
    text = (ROOT / "docs" / "voices.md").read_text(encoding="utf-8")
    assert text.index(report.BEGIN) < text.index(report.END)


def test_results_are_read_as_they_were_written(tmp_path: Path) -> None:
    path = tmp_path / "results" / "voices.json"
    results.save(listening(), path)
    assert results.load(path) == listening()
    assert len([line for line in path.read_text("utf-8").splitlines() if line.startswith('["')]) == 6


def test_each_family_speaks_mandarin_and_english_in_its_first_voices() -> None:
    later = Voice("zf_z", "Z", "zh-CN")
    pairs = pairs_of([MANDARIN, TINY, later, AMERICAN, TINY_ENGLISH])
    assert pairs == {KOKORO: (MANDARIN, AMERICAN), ESPEAK: (TINY, TINY_ENGLISH)}
    assert pairs_of([MANDARIN, TINY_ENGLISH]) == {}


def test_cantonese_is_not_heard() -> None:
    assert Voice("yue-female-1", "E", "zh-HK").heard_in == ""


def test_a_sentence_is_spoken_once_in_a_voice() -> None:
    pairs = pairs_of([MANDARIN, AMERICAN])
    jobs = list(planned(pairs, [MANDARIN, AMERICAN, TINY], each=2))
    assert len(jobs) == len(set(jobs))
    spoken = {
        voice: [job.sentence for job in jobs if job.voice == voice] for voice in (MANDARIN, AMERICAN, TINY)
    }
    assert [len(spoken[MANDARIN]), len(spoken[AMERICAN])] == [2 * len(GROUPS), 3]
    assert spoken[TINY] == short("zh")

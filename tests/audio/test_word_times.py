"""The times of words in an mp3, and captions."""

from pathlib import Path

import pytest
import soundfile

from myna.engines.audio import word_times
from myna.engines.audio.mp3 import Mp3File, duration_s, is_truncated
from myna.engines.interface import WordTime

RATE_HZ = 24_000
WORDS = [WordTime("今天，", 0.1, 0.4), WordTime("a <b> & ", 1.0, 2.2)]


def mp3(folder: Path, words: list[WordTime]) -> Path:
    """Three seconds of silence."""
    path = folder / "a.mp3"
    with Mp3File(folder / "part", path, RATE_HZ) as file:
        file.write(bytes(2 * 3 * RATE_HZ))
        assert file.finish(word_times.tag(words)).size_bytes == path.stat().st_size
    return path


def test_an_mp3_keeps_its_words_and_its_sound(tmp_path: Path) -> None:
    path = mp3(tmp_path, WORDS)
    assert word_times.read(path) == WORDS
    data = path.read_bytes()
    assert duration_s(data) == pytest.approx(3)
    assert not is_truncated(data)
    assert soundfile.info(path).frames == len(soundfile.read(path)[0]) == 3 * RATE_HZ


@pytest.mark.parametrize("damage", ["none", "cut", "length", "json"])
def test_an_mp3_without_a_whole_tag_has_no_words(tmp_path: Path, damage: str) -> None:
    path = mp3(tmp_path, [] if damage == "none" else WORDS)
    data = bytearray(path.read_bytes())
    if damage == "cut":
        data.pop()
    elif damage == "length":
        data[-20:-16] = b"\xff\xff\xff\x7f"
    elif damage == "json":
        data[-33:-32] = b"["
    path.write_bytes(data)
    assert word_times.read(path) == []


def test_captions_end_with_sentences_and_at_pauses() -> None:
    words = [WordTime(f"{word} ", at, at + 0.4) for at, word in enumerate(("One", "two.", "Three"))]
    words = [
        *words,
        *(WordTime("字" * 5, 3 + at / 2, 3.5 + at / 2) for at in range(6)),
        WordTime("a <b> &", 7, 8),
    ]
    assert word_times.srt([WordTime("One ", 0, 0.2), WordTime("two.", 0.3, 0.5), *WORDS[1:]]) == (
        "1\n00:00:00,000 --> 00:00:00,500\nOne two.\n\n2\n00:00:01,000 --> 00:00:02,200\na <b> &\n\n"
    )
    assert word_times.vtt(WORDS[1:]) == "WEBVTT\n\n00:00:01.000 --> 00:00:02.200\na &lt;b&gt; &amp;\n\n"
    cues = [cue.split("\n")[2] for cue in word_times.srt(words).split("\n\n")[:-1]]
    assert cues == ["One", "two.", "Three", "字" * 20, "字" * 10, "a <b> &"]

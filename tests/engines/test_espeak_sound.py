"""What espeak-ng is given and what becomes of its sound: texts in pieces, phonemes, stretching, mp3."""

import hashlib
import math
from array import array
from collections.abc import AsyncIterator
from operator import sub
from pathlib import Path

import pytest
import soundfile

from myna.engines.audio.mp3 import Mp3File
from myna.engines.audio.stretch import Stretch
from myna.engines.espeak.child import Pace, paced
from myna.engines.espeak.library import runs_of
from myna.engines.interface import EngineLimits, SpeechResult, UnsupportedUtterance
from myna.engines.jobs import Phonemes, PhonemesJob
from myna.engines.pool.pool import Pool
from tests.engines.conftest import started

_RATE_HZ = 22050


def _tone(hertz: float, seconds: float) -> bytes:
    """A voice-like tone: the pitch and two of its overtones."""
    parts = ((1, 6000), (2, 4000), (5, 2000))
    step = 2 * math.pi * hertz / _RATE_HZ
    samples = range(round(seconds * _RATE_HZ))
    return array("h", [round(sum(a * math.sin(k * step * i) for k, a in parts)) for i in samples]).tobytes()


def _stretched(pcm: bytes, factor: float, piece_bytes: int) -> "array[int]":
    stretch = Stretch(_RATE_HZ, factor)
    pieces = [stretch.feed(pcm[at : at + piece_bytes]) for at in range(0, len(pcm), piece_bytes)]
    return array("h", b"".join(pieces) + stretch.flush())


def _pitch_hz(samples: "array[int]", about_hz: float) -> float:
    """The pitch by autocorrelation, within half an octave each way."""
    middle = samples[len(samples) // 2 :][:4000]
    lags = range(round(_RATE_HZ / about_hz / 1.4), round(_RATE_HZ / about_hz * 1.4))
    return _RATE_HZ / min(lags, key=lambda lag: sum(map(abs, map(sub, middle, middle[lag : lag + 1000]))))


@pytest.mark.parametrize("factor", [0.55, 0.8, 0.95, 1.05, 1.3, 1.75])
@pytest.mark.parametrize("hertz", [110.0, 210.0])
def test_a_stretched_sound_has_its_length_and_keeps_its_pitch(factor: float, hertz: float) -> None:
    pcm = _tone(hertz, 2)
    stretched = _stretched(pcm, factor, 8820)
    assert len(stretched) == pytest.approx(factor * len(pcm) / 2, rel=0.02)
    assert _pitch_hz(stretched, hertz) == pytest.approx(hertz, rel=0.03)


def test_a_sound_stretched_in_small_pieces_is_the_same_as_in_large_ones() -> None:
    pcm = _tone(150, 3.3)
    assert _stretched(pcm, 1.5, 100) == _stretched(pcm, 1.5, len(pcm))


@pytest.mark.parametrize("samples", [0, 1, 500, 700, 22_050])
def test_silence_and_the_shortest_sounds_are_stretched_too(samples: int) -> None:
    stretched = _stretched(bytes(2 * samples), 1.5, 4410)
    assert set(stretched) <= {0}
    assert 1.5 * samples - 700 <= len(stretched) <= 1.5 * samples + 350


@pytest.mark.parametrize("samples", [1, 575, 22050, 100_001])
def test_an_mp3_plays_exactly_as_long_as_its_sound(tmp_path: Path, samples: int) -> None:
    pcm = _tone(200, 5)[: 2 * samples]
    with Mp3File(tmp_path / "part", tmp_path / "sound.mp3", _RATE_HZ) as file:
        for at in range(0, len(pcm), 4410):
            file.write(pcm[at : at + 4410])
        made = file.finish()

    sound, rate_hz = soundfile.read(tmp_path / "sound.mp3", dtype="int16")
    assert (len(sound), rate_hz) == (samples, _RATE_HZ)
    content = (tmp_path / "sound.mp3").read_bytes()
    assert made == SpeechResult(samples / _RATE_HZ, len(content), hashlib.sha256(content).digest())
    assert not (tmp_path / "part").exists()


def test_an_mp3_that_fails_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), Mp3File(tmp_path / "part", tmp_path / "a.mp3", _RATE_HZ) as file:
        file.write(_tone(200, 1))
        raise ZeroDivisionError
    assert list(tmp_path.iterdir()) == []


def test_a_speed_outside_the_engines_range_is_stretched() -> None:
    def length_at(rate: int) -> int:
        return 175_000_000 // rate  # an engine that keeps its rate exactly

    assert paced(1, length_at) == Pace(175, 1)
    native = paced(1.5, length_at)
    assert native.stretch == 1 and native.rate == pytest.approx(262, rel=0.02)
    slow, fast = paced(0.25, length_at), paced(4, length_at)
    assert (slow.rate, fast.rate) == (80, 449)
    assert slow.stretch == pytest.approx(80 / 43.75, rel=0.01)
    assert fast.stretch == pytest.approx(449 / 700, rel=0.01)


@pytest.mark.parametrize(
    ("text", "runs"),
    [
        ("Hello there.", [("en-us", "Hello there.")]),
        ("你好，世界", [("cmn", "你好，世界")]),
        ("She said “你好”.", [("en-us", "She said “"), ("cmn", "你好”.")]),
        ("你好 and 再见", [("cmn", "你好"), ("en-us", " and "), ("cmn", "再见")]),
        ("In 2024 我有5个苹果", [("en-us", "In 2024 "), ("cmn", "我有五个苹果")]),
        ("今天2024年5月 is May 2024", [("cmn", "今天二零二四年五月"), ("en-us", " is May 2024")]),
        ("12月 plan 3", [("cmn", "十二月"), ("en-us", " plan 3")]),
    ],
)
def test_an_english_voice_leaves_han_to_a_chinese_one(text: str, runs: list[tuple[str, str]]) -> None:
    assert runs_of(text, "en-us", "cmn") == runs


@pytest.mark.parametrize("text", ["我用Python写。", "123", "今天 is 好天"])
def test_a_chinese_voice_reads_latin_words_beside_han(text: str) -> None:
    assert runs_of(text, "cmn+f3", "cmn+f3") == [("cmn+f3", text)]


@pytest.mark.parametrize(
    ("voice", "english"), [("cmn+f3", "en-us+f3"), ("yue+m3", "en-us+m3"), ("zh-CN", "en-us")]
)
def test_a_text_of_latin_words_is_read_by_an_english_voice(voice: str, english: str) -> None:
    assert runs_of("Half is 1/2.", voice, voice) == [(english, "Half is 1/2.")]


def test_a_chinese_voice_reads_numbers_as_words() -> None:
    assert runs_of("有25个", "cmn", "cmn") == [("cmn", "有二十五个")]


@pytest.mark.parametrize(
    ("text", "given"),
    [
        ("a\0b", "a b"),
        ("a\x1bb\x7fc\u0085d", "a b c d"),
        ("你\u200b好\ufeff", "你好"),
        ("line\nline\tend", "line\nline\tend"),
        ("x" * 90, "x" * 40 + " " + "x" * 40 + " " + "x" * 10),
        ("call 12345678", "call 1 2 3 4 5 6 7 8"),
        ("ж" * 16, "ж" * 7 + " " + "ж" * 7 + " " + "ж" * 2),
        ("好" * 250, ", ".join(["好" * 100, "好" * 100, "好" * 50])),
        ("好" * 90 + "。" + "好" * 90, "好" * 90 + "。" + "好" * 90),
    ],
)
def test_characters_that_the_engine_drops_are_removed(text: str, given: str) -> None:
    ((_, spoken),) = runs_of(text, "cmn", "cmn")
    assert spoken == given


@pytest.fixture(scope="module")
async def phonemizer() -> AsyncIterator[Pool[Phonemes]]:
    limits = EngineLimits(processes=1, queue_max=4, job_deadline_s=20)
    async with started(Pool("myna.engines.espeak.phonemizer", Phonemes, limits)) as pool:
        yield pool


@pytest.mark.parametrize(
    ("text", "language", "pieces"),
    [
        ("Hello, world! Good: yes.", "en-us", ["həlˈoʊ, wˈɜːld!", "ɡˈʊd: jˈɛs."]),
        ("Mr. Smith has 3.", "en-US", ["mˈɪstɚ smˈɪθ hɐz θɹˈiː."]),
        ("Hallo Welt", "de", ["hˈaloː vˈɛlt"]),
        ("Bonjour", "fr-FR", ["bɔ̃ʒˈuʁ"]),
        ("你好，世界。", "zh-CN", ["ni2χˈɑu2, s.ˈi.5 tɕˈiɛ5."]),
        ("", "en-us", []),
        ("?!", "en-us", []),
    ],
)
async def test_phonemes_keep_punctuation(
    phonemizer: Pool[Phonemes], text: str, language: str, pieces: list[str]
) -> None:
    assert (await phonemizer.run(PhonemesJob(text, language), 20)).pieces == pieces


async def test_a_foreign_word_leaves_no_language_marker(phonemizer: Pool[Phonemes]) -> None:
    (piece,) = (await phonemizer.run(PhonemesJob("今天3点hello", "cmn"), 20)).pieces
    assert "(" not in piece and "l" in piece
    assert piece.startswith("tɕˈi5n")


async def test_the_phonemes_of_a_voice_are_plain_ipa(phonemizer: Pool[Phonemes]) -> None:
    """Kokoro alone reads IPA with ties. A text may name a language that the engine does not have."""
    read = await phonemizer.run(PhonemesJob("The church 吃茶 [house](:lang tlh)", "en-us", "cmn"), 20)
    assert read.pieces == ["ðə tʃˈɜːtʃ", "ts.hˈi.5 ts.hˈɑɜ", "hˈaʊs"]


async def test_an_unknown_language_is_refused(phonemizer: Pool[Phonemes]) -> None:
    with pytest.raises(UnsupportedUtterance):
        await phonemizer.run(PhonemesJob("nuqneH", "tlh"), 20)

"""The length of a text's sound, estimated before the charge: never less than the engine then makes."""

from pathlib import Path

import pytest

from myna.engines.espeak.engine import Espeak
from myna.engines.interface import Utterance
from myna.errors import InvalidRequest
from myna.speech.length import check_sound, sound_s
from tests.engines.conftest import anyio_backend, espeak

__all__ = ["anyio_backend", "espeak"]

VOICES = ("zh-female-1", "yue-female-1", "en-us-female-1")
ORDINARY = [
    "今天天气很好，我们一起去公园散步吧。" * 5,
    "The weather is lovely today, shall we go for a walk in the park? " * 3,
]
DENSE = [
    "ﷺ" * 30,
    "777777 " * 20,
    "99999.99元" * 10,
    "-9999999 " * 10,
    "⣽" * 15,
    "½" * 30,
    "㊿" * 20,
    "㍿" * 20,
    "好\n\n" * 20,
    "好。" * 20,
    "А" * 30,
    "かな" * 15,
    "@#$^&*=<>~|" * 5,
    "hi! " * 20,
    "5㎡" * 15,
    "六⅞" * 9,
    "１３:５９ " * 10,
]


@pytest.mark.anyio
@pytest.mark.parametrize("text", ORDINARY + DENSE)
async def test_no_text_is_longer_than_its_estimate(espeak: Espeak, tmp_path: Path, text: str) -> None:
    for number, voice_id in enumerate(VOICES):
        spoken = await espeak.speak(Utterance(text, voice_id, 1.0), tmp_path / f"{number}.mp3", 60)
        assert spoken.seconds <= sound_s(text, 1.0)


@pytest.mark.parametrize("speed", [0.25, 0.5, 1.0, 4.0])
def test_a_slower_speed_makes_more_sound(speed: float) -> None:
    assert sound_s(ORDINARY[0], speed) == pytest.approx(sound_s(ORDINARY[0], 1.0) / speed)


@pytest.mark.parametrize("text", [ORDINARY[0] * 11, ORDINARY[1] * 5])
def test_a_thousand_ordinary_characters_may_be_spoken_at_the_slowest_speed(text: str) -> None:
    assert check_sound(text[:1000], 0.25, 1800) <= 1800


@pytest.mark.parametrize(("text", "speed"), [("ﷺ" * 1000, 0.25), ("ﷺ" * 1000, 1.0), ("7" * 1000, 0.25)])
def test_a_text_over_the_sound_limit_is_refused_with_the_limit(text: str, speed: float) -> None:
    with pytest.raises(InvalidRequest, match=r"^text: would make up to [0-9.]+ minutes .* at most 30 are"):
        check_sound(text, speed, 1800)

"""Whisper hears a running service. Where its model can't be fetched these tests fail with the reason."""

from pathlib import Path

import pytest

from listen import sound
from listen.ear import Ear, fetch
from listen.score import score
from listen.sentences import ENGLISH, of_group
from listen.speakers import ESPEAK, Speaker
from tests.rig.service import ServiceMaker

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1500)]


@pytest.fixture(scope="module")
def ear() -> Ear:
    return Ear(fetch(), threads=2)


def test_an_embedded_english_voice_is_understood(
    ear: Ear, make_service: ServiceMaker, tmp_path: Path
) -> None:
    speaker = Speaker(make_service(speech="espeak").start())
    (voice, *_) = (voice for voice in speaker.voices() if voice.heard_in == "en")
    first, second = of_group(ENGLISH, 2)
    spoken = speaker.speak(first.text, voice, tmp_path / "spoken.mp3")
    heard = ear.hear(spoken.path, "en")

    assert voice.family == ESPEAK
    assert score(first.reference, heard).rate <= 0.25, heard
    assert score(second.reference, heard).rate >= 0.75, heard
    assert 0 < spoken.took_s < spoken.first_s
    assert 1 < spoken.seconds < 10
    assert -40 < sound.loudness_lufs(*sound.read(spoken.path)) < -10
    peaks = speaker.peak_bytes()
    assert set(peaks) >= {"main", "myna.engines.espeak.child"}
    assert all(10**7 < peak < 10**9 for peak in peaks.values())

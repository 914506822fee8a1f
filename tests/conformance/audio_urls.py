"""Checks of an audio URL: it needs no key and serves an audible mp3."""

import importlib
import io
from dataclasses import dataclass

from tests.rig.calls import Answer, call
from tests.rig.service import Service


@dataclass(frozen=True)
class Sound:
    """Decoded audio: its length in seconds and its peak (1.0 is full scale)."""

    duration_s: float
    peak: float
    channels: int


def fetch(service: Service, url: str, **headers: str) -> Answer:
    """Gets an audio URL without a key."""
    assert url.startswith(f"{service.root_url}/uploads/"), url
    answer = call("GET", url, headers=headers)
    assert answer.headers["x-request-id"]
    return answer


def listen(service: Service, url: str) -> Sound:
    """Gets and decodes an audio URL. Checks that it is an audible mp3."""
    answer = fetch(service, url)
    assert answer.status == 200
    assert answer.headers["content-type"] == "audio/mpeg"
    soundfile = importlib.import_module("soundfile")
    with soundfile.SoundFile(io.BytesIO(answer.body)) as file:
        assert file.format in ("MP3", "MPEG"), file.format
        samples = file.read(dtype="float32", always_2d=True)
        sound = Sound(len(samples) / file.samplerate, float(abs(samples).max()), file.channels)
    assert sound.duration_s > 0.1
    assert sound.peak > 0.01
    return sound

"""How the sound of a response is written: as it is, as events, or with the times of its words.

The two shapes with times are those of Kokoro-FastAPI's captioned speech: one object, or one a line.
"""

import base64
from collections.abc import Callable, Mapping, Sequence
from typing import Final, Literal

from myna.engines.audio import word_times
from myna.engines.interface import WordTime
from myna.wire.body import to_event, to_json
from myna.wire.openai import CaptionedSpeech, SpeechDelta, SpeechEnd, SpeechUsage, WordTimestamp

Shape = Literal["sound", "events", "lines", "object"]
_MEDIA_TYPES: Final[dict[Shape, bytes]] = {
    "events": b"text/event-stream",
    "lines": b"application/x-ndjson",
    "object": b"application/json",
}
_OBJECT: Final = b'{"audio":"'
_BASE64_BYTES: Final = 3
"""Base64 of so many bytes can be followed by more."""


def shown(words: Sequence[WordTime]) -> list[WordTimestamp]:
    """The words without the spaces around them."""
    return [WordTimestamp(word.text.strip(), round(word.begin_s, 3), round(word.end_s, 3)) for word in words]


Captions = tuple[str, Callable[[Sequence[WordTime]], str]]
CAPTIONS: Final[Mapping[str, Captions]] = {
    "srt": ("application/x-subrip", word_times.srt),
    "vtt": ("text/vtt", word_times.vtt),
    "json": ("application/json", lambda words: to_json(shown(words)).decode()),
}
"""How the captions of a sound are written, by the ending of their name: the content type, and the content."""


class Framing:
    """Writes one response. `sound_type` is the content type of the sound; `timed` responses have the times of
    words, as far as the engine knows them."""

    def __init__(self, shape: Shape, sound_type: bytes, *, timed: bool) -> None:
        self._shape = shape
        self._sound_type = sound_type
        self._timed = timed
        self._words: list[WordTime] = []
        self._told = 0
        self._rest = b""
        self.media_type = _MEDIA_TYPES.get(shape, sound_type)
        self.events = shape == "events"

    def know(self, words: Sequence[WordTime]) -> None:
        """These words come next."""
        self._words += words

    def begin(self) -> bytes:
        return _OBJECT if self._shape == "object" else b""

    def part(self, sound: bytes) -> bytes:
        """A part of the sound."""
        if self._shape == "sound":
            return sound
        if self._shape == "object":
            whole = self._rest + sound
            end = len(whole) - len(whole) % _BASE64_BYTES
            self._rest = whole[end:]
            return base64.b64encode(whole[:end])
        captioned = self._captioned(base64.b64encode(sound).decode())
        if self._shape == "lines":
            return to_json(captioned) + b"\n"
        return to_event(SpeechDelta(captioned.audio, captioned.timestamps if self._timed else None))

    def end(self, chars: int) -> bytes:
        """The end of the response to a text of so many characters."""
        if self._shape == "events":
            return to_event(SpeechEnd(SpeechUsage(chars, 0, chars)))
        if self._shape == "object":
            end = to_json(self._captioned("")).removeprefix(_OBJECT)
            return base64.b64encode(self._rest) + end
        return b""

    def _captioned(self, audio: str) -> CaptionedSpeech:
        new = self._words[self._told :]
        self._told = len(self._words)
        return CaptionedSpeech(audio, self._sound_type.decode(), shown(new) if self._words else None)

"""The program that knows how words sound: `python -m myna.engines.phonemes_child <parent's pid>`.

It asks espeak-ng, which is why it is a program of its own (see `espeak_child.py`), for neural voices that
take phonemes instead of text.
"""

import ctypes
import unicodedata
from typing import Any, Final

import msgspec
import regex

from myna.engines import reading
from myna.engines.child import Tell, Work, serve
from myna.engines.espeak_library import load
from myna.engines.sherpa_job import Phonemes, PhonemesJob
from myna.engines.sherpa_text import pieces
from myna.engines.spoken import UnfitUtterance

# speak_lib.h
_OK, _TEXT_IS_UTF8, _PHONEMES_ARE_IPA = 0, 1, 2

_NAMES: Final = {"zh": "cmn", "zh-hk": "yue", "zh-mo": "yue"}
# espeak-ng gives the sounds of a clause without its end, and the voices were trained with it. A full stop
# within a piece belongs to a word.
_CLAUSE: Final = regex.compile(
    r"(?P<words>.+?)(?:(?P<stop>[,;:!?](?=\s)|[，；：！？、。…]|[.!?]+$)\W*|$)", regex.DOTALL
)
_STOPS: Final = {"，": ",", "、": ",", "；": ";", "：": ":", "。": ".", "！": "!", "？": "?", "…": "."}
_SWITCH: Final = regex.compile(r"\([a-z-]+\)")  # where espeak-ng goes over to another language


class Phonemizer:
    """espeak-ng as a dictionary."""

    def __init__(self) -> None:
        self._lib: Any = load()[0]
        self._sounds = self._lib.espeak_TextToPhonemes
        self._sounds.argtypes = [ctypes.POINTER(ctypes.c_char_p), ctypes.c_int, ctypes.c_int]
        self._sounds.restype = ctypes.c_char_p

    def phonemes(self, text: str, language: str) -> list[str]:
        """The text's pieces in IPA, decomposed (NFD). Raises UnfitUtterance for an unknown language."""
        self._select(language)
        return [self._piece(piece) for piece in pieces(text, language)]

    def _select(self, language: str) -> None:
        """By the whole code, else by its first part: espeak-ng knows en-us but not fr-fr."""
        code = language.lower()
        first = code.partition("-")[0]
        for name in (code, first):
            if self._lib.espeak_SetVoiceByName(_NAMES.get(name, name).encode()) == _OK:
                return
        raise UnfitUtterance("There are no phonemes for the language of this voice.")

    def _piece(self, text: str) -> str:
        clauses = (self._words(found["words"]) + _mark(found["stop"]) for found in _CLAUSE.finditer(text))
        return unicodedata.normalize("NFD", " ".join(clauses))

    def _words(self, text: str) -> str:
        rest = ctypes.c_char_p(text.encode())
        said = []
        while rest.value:
            sounds: bytes | None = self._sounds(ctypes.byref(rest), _TEXT_IS_UTF8, _PHONEMES_ARE_IPA)
            said.append(_SWITCH.sub("", (sounds or b"").decode()))
        return " ".join(said)


def _mark(stop: str | None) -> str:
    return _STOPS.get(stop[-1], stop[-1]) if stop else ""


def _warm(_setup: bytes) -> Work:
    """Loads what the first job would have to wait for, and gives the work."""
    phonemizer = Phonemizer()
    reading.warm()
    decoder = msgspec.msgpack.Decoder(PhonemesJob)

    def work(packed: bytes, _tell: Tell) -> Phonemes:
        job = decoder.decode(packed)
        return Phonemes(phonemizer.phonemes(job.text, job.language))

    return work


if __name__ == "__main__":
    serve(_warm)

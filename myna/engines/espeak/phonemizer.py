"""The child program that converts text to phonemes with espeak-ng, run by `pool/child_main.py`.

Neural models that take phonemes instead of text need it. It uses espeak-ng, so it is a separate program (see
`espeak/child.py`), and only child programs import this module.
"""

import ctypes
import unicodedata
from typing import Any, Final

import msgspec
import regex

from myna.engines.espeak.library import PAUSE, load, runs_of
from myna.engines.interface import UnsupportedUtterance
from myna.engines.jobs import Phonemes, PhonemesJob
from myna.engines.pool.child_main import Work
from myna.engines.text.reading import pieces

# speak_lib.h
_OK, _TEXT_IS_UTF8, _PHONEMES_ARE_IPA = 0, 1, 2
_PHONEMES_ARE_TIED_IPA: Final = _PHONEMES_ARE_IPA | 0x80 | ord("^") << 8

_NAMES: Final = {"zh": "cmn", "zh-hk": "yue", "zh-mo": "yue"}
# espeak-ng returns the phonemes of a clause without its punctuation, but the voices were trained with it. A
# full stop within a piece belongs to a word.
_CLAUSE: Final = regex.compile(
    r"(?P<words>.+?)(?:(?P<stop>[,;:!?](?=\s)|[，；：！？、。…]|[.!?]+$)\W*|$)", regex.DOTALL
)
_STOPS: Final = {"，": ",", "、": ",", "；": ";", "：": ":", "。": ".", "！": "!", "？": "?", "…": "."}
_SWITCH: Final = regex.compile(r"\([a-z^-]+\)")  # espeak-ng's mark of a change of language


class Phonemizer:
    """Converts text to phonemes with espeak-ng."""

    def __init__(self) -> None:
        self._lib: Any = load()[0]
        self._sounds = self._lib.espeak_TextToPhonemes
        self._sounds.argtypes = [ctypes.POINTER(ctypes.c_char_p), ctypes.c_int, ctypes.c_int]
        self._sounds.restype = ctypes.c_char_p

    def phonemes(self, job: PhonemesJob) -> Phonemes:
        """The pieces are decomposed (NFD). Raises UnsupportedUtterance for an unknown language."""
        if job.han_language:
            runs = [run for run in runs_of(job.text, job.language, job.han_language) if run[0] != PAUSE]
            ipa = [self._ipa_or_english(text, language) for language, text in runs]
            return Phonemes(ipa, "".join(text for _, text in runs))
        self._select(job.language)
        found = pieces(job.text, job.language)
        return Phonemes([self._piece(piece) for piece in found], " ".join(found))

    def _ipa_or_english(self, text: str, language: str) -> str:
        """The IPA of a run, whose language may be named by the text, for people to read: without ties."""
        try:
            self._select(language)
        except UnsupportedUtterance:
            self._select("en-us")
        return self._words(text)

    def ipa(self, text: str, language: str) -> str:
        """The text in IPA, with its stress marks, without punctuation, and with ^ between the letters of one
        sound. Raises UnsupportedUtterance for an unknown language."""
        self._select(language)
        return self._words(text, _PHONEMES_ARE_TIED_IPA)

    def _select(self, language: str) -> None:
        """Selects the voice of the whole code, else of its first part: espeak-ng has en-us but not fr-fr."""
        code = language.lower()
        first = code.partition("-")[0]
        for name in (code, first):
            if self._lib.espeak_SetVoiceByName(_NAMES.get(name, name).encode()) == _OK:
                return
        raise UnsupportedUtterance("There are no phonemes for the language of this voice.")

    def _piece(self, text: str) -> str:
        clauses = []
        for found in _CLAUSE.finditer(text):
            mark = (found["stop"] or "")[-1:]
            clauses.append(self._words(found["words"]) + _STOPS.get(mark, mark))
        return unicodedata.normalize("NFD", " ".join(clauses))

    def _words(self, text: str, mode: int = _PHONEMES_ARE_IPA) -> str:
        # At the end of a text without final white space the library reads one character ahead, keeps it in a
        # static variable, and speaks it at the beginning of the next text.
        rest = ctypes.c_char_p(f"{text}\n".encode())
        phonemes = []
        while rest.value:
            sounds: bytes | None = self._sounds(ctypes.byref(rest), _TEXT_IS_UTF8, mode)
            phonemes.append(_SWITCH.sub("", (sounds or b"").decode()))
        return " ".join(phonemes)


def warm(_setup: bytes) -> Work:
    """Loads everything that the first job needs, and returns the work."""
    phonemizer = Phonemizer()
    decoder = msgspec.msgpack.Decoder(PhonemesJob)
    return lambda packed, _running: phonemizer.phonemes(decoder.decode(packed))

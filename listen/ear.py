"""The listener: Whisper base, as `myna models get whisper` fetches it, in the user's cache."""

import re
from pathlib import Path

from demo import kokoro_model
from listen import sound
from myna.cli.models import ProgressBar
from myna.engines.models import install
from myna.engines.models.published import WHISPER

RATE_HZ = 16_000
PROMPT = "你好，我们开始吧。"
"""As if it had heard this before: makes Whisper write Mandarin in simplified characters."""

_REPEATED = 8
"""A sequence of so many tokens is written once. Where speech is unclear Whisper repeats itself up to its
limit, which would count as many errors."""
_NOT_WORDS = re.compile(r"[\d%$£€￥¥]|--|——")


def fetch() -> Path:
    """The folder of the model, fetched where it isn't there yet or is damaged. Raises CommandError."""
    folder = kokoro_model.cached().with_name("whisper-base")
    with ProgressBar(quiet=False) as progress:
        return install.get(WHISPER, folder, "", progress).folder


class Ear:
    """Whisper base, which transcribes one file at a time in `threads` threads.

    Imports faster-whisper, which only this group of dependencies has.
    """

    def __init__(self, folder: Path, threads: int = 1) -> None:
        from faster_whisper import WhisperModel

        self._model = WhisperModel(
            str(folder), device="cpu", compute_type="int8", cpu_threads=threads, local_files_only=True
        )
        self._suppressed = [-1, *self._numerals()]

    def hear(self, path: Path, language: str) -> str:
        """The transcript of the sound, numbers in words. `language`: `zh`, `en`, or `mixed` for both.

        The same sound gives the same text on the same processor: beam search, without sampling.
        """
        samples, rate_hz = sound.read(path)
        segments, _ = self._model.transcribe(
            sound.resampled(samples, rate_hz, RATE_HZ),
            language="en" if language == "en" else "zh",
            initial_prompt=None if language == "en" else PROMPT,
            beam_size=5,
            temperature=0.0,
            no_repeat_ngram_size=_REPEATED,
            condition_on_previous_text=False,
            suppress_tokens=self._suppressed,
        )
        return "".join(segment.text for segment in segments)

    def _numerals(self) -> list[int]:
        """The tokens with digits, and dashes, which replace them otherwise. Without them Whisper writes a
        number as it was read: 二零二四年 and 两千零二十四年 are not both 2024年."""
        tokenizer = self._model.hf_tokenizer
        tokens = tokenizer.get_vocab().items()
        return [
            number for token, number in tokens
            if not token.startswith("<|") and _NOT_WORDS.search(tokenizer.decode([number]))
        ]  # fmt: skip

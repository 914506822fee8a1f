"""Whisper in a media child: what of a recording is speech, its language and its text."""

import itertools
import os
import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
from msgspec.structs import replace

from myna.engines.audio.loudness import Sound
from myna.engines.interface import EngineUnavailable, LanguageUnknown, SampleRefused
from myna.engines.media.job import (
    RECORDING_MAX_S,
    Script,
    Segment,
    Transcript,
    TranscriptionJob,
    WhisperModel,
    Word,
)
from myna.engines.media.recording import UnreadableRecording, mono, opened
from myna.engines.pool.child_main import RunningJob

PROMPTS: Final = {
    Script.SIMPLIFIED: "你好，我们开始吧。",
    Script.TAIWAN: "你好，我們開始吧。",
    Script.HONG_KONG: "你好，我們開始吧。",
}
"""As if Whisper had heard this before."""

_HAN: Final = "\u3400-\u9fff"
_FULL: Final = str.maketrans(",.?!:;()", "，。？！：；（）")
# Small forms, and letters and digits of full width, of which Whisper knows some.
_ODD: Final = re.compile("[\ufe50-\ufe6b\uff10-\uff19\uff21-\uff3a\uff41-\uff5a]+")
_STOP: Final = re.compile(rf"(?<=[{_HAN}])\.(?![.\w])|(?<=\w)\.(?=[{_HAN}])")
_MARK: Final = re.compile(
    rf"(?<=[{_HAN}”》）])[,?!:;]|[,?!:;](?=\s*[{_HAN}“《（])|\((?=[{_HAN}])|(?<=[{_HAN}])\)"
)
_LAST: Final = re.compile(rf"([{_HAN}][^。？！?!]*[^。？！?!.])([.,?!:;])\s*$")
_DOTS: Final = re.compile(rf"(?<=[{_HAN}])\.{{2,}}")
_PAUSE: Final = re.compile(rf"(?<=[{_HAN}]) +(?=[{_HAN}])")
_AFTER: Final = re.compile(r"(?<=[，。？！：；（）、]) +")


def punctuated(text: str) -> str:
    """The text with full-width punctuation beside Chinese characters; 3.5, 10:30 and Wi-Fi stay. A space
    between two characters is a pause."""
    text = _ODD.sub(lambda found: unicodedata.normalize("NFKC", found[0]), text)
    if not re.search(f"[{_HAN}]", text):
        return text
    text = _STOP.sub("。", _DOTS.sub("……", text))
    text = _PAUSE.sub("，", text)
    text = _LAST.sub(lambda found: found[1] + found[2].translate(_FULL), text)
    text = _MARK.sub(lambda found: found[0].translate(_FULL), text)
    return _AFTER.sub("", text)


class Writer:
    """Has the dictionaries of all scripts in memory, some 45 MB: a confined process can't open them later."""

    def __init__(self) -> None:
        from opencc import OpenCC

        self._converters = {script: OpenCC(script.value) for script in Script}

    def written(
        self, segments: Sequence[Segment], words: Sequence[Word], script: Script
    ) -> tuple[list[Segment], list[Word]]:
        """The parts and the words of a transcript in this script, with full-width punctuation."""
        texts = self._in_script([word.word for word in words], script)
        return (
            [replace(one, text=punctuated(*self._in_script([one.text], script))) for one in segments],
            [replace(one, word=punctuated(text)) for one, text in zip(words, texts, strict=True)],
        )

    def _in_script(self, texts: Sequence[str], script: Script) -> list[str]:
        """The texts, which follow each other, in this script: neighbours decide a character's form."""
        convert = self._converters[script].convert
        together = convert("".join(texts))
        if len(together) != sum(map(len, texts)):
            return [convert(text) for text in texts]
        ends = list(itertools.accumulate(map(len, texts), initial=0))
        return [together[start:end] for start, end in itertools.pairwise(ends)]


RATE_HZ: Final = 16_000
_BEAM_SIZE: Final = 5
_TEMPERATURES: Final = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
"""Tried in order until the text neither repeats itself (compression ratio) nor is improbable (average log
probability); OpenAI documents it for a temperature of 0. A single 0 would keep loops."""
_LANGUAGE_OF_SILENCE: Final = "en"
_MANDARIN: Final = "zh"


class LoadedModel:
    """A loaded model. Raises EngineUnavailable."""

    def __init__(self, model: WhisperModel) -> None:
        os.environ["HF_HUB_OFFLINE"] = "1"  # a confined process can't reach a network anyway
        try:
            from faster_whisper import WhisperModel as Model
            from faster_whisper.transcribe import restore_speech_timestamps
            from faster_whisper.vad import get_speech_timestamps, get_vad_model

            self._writer = Writer()
        except ImportError as error:
            raise EngineUnavailable(f"{error.name} is missing: install Myna's extra 'hear'.") from error
        try:
            self._model = Model(
                os.fsdecode(model.folder),
                device="cpu",
                compute_type="int8",
                cpu_threads=model.threads,
                local_files_only=True,
            )
            get_vad_model()  # kept by the library; a confined process can't open its file later
        except (RuntimeError, ValueError, OSError) as error:
            raise EngineUnavailable(
                f"Whisper can't be loaded ({type(error).__name__}); get it again: myna models get whisper."
            ) from error
        self._speech, self._restored = get_speech_timestamps, restore_speech_timestamps

    def transcribe(self, job: TranscriptionJob, running: RunningJob) -> Transcript:
        """The transcript of what a voice activity detector takes for speech: from silence and noise Whisper
        invents words. Raises SampleRefused for a recording that can't be read, LanguageUnknown for a
        language that the model does not know."""
        if job.language is not None and job.language not in self._model.supported_languages:
            raise LanguageUnknown("Whisper does not know this one; send a code like zh, or none.")
        sound = read(Path(os.fsdecode(job.source)))
        seconds = round(len(sound) / RATE_HZ, 3)
        speech = self._speech(sound)
        if not speech:
            return Transcript(job.language or _LANGUAGE_OF_SILENCE, seconds, [], [])
        voiced = np.concatenate([sound[one["start"] : one["end"]] for one in speech])
        language = job.language or str(self._model.detect_language(voiced)[0])
        found, _ = self._model.transcribe(
            voiced,
            task="translate" if job.translate else "transcribe",
            language=language,
            initial_prompt=job.prompt or (PROMPTS[job.script] if _is_written(job, language) else None),
            beam_size=_BEAM_SIZE,
            temperature=job.temperature or _TEMPERATURES,
            word_timestamps=job.words,
        )
        segments: list[Segment] = []
        words: list[Word] = []
        for one in self._restored(_within(found, len(voiced) / RATE_HZ), speech, RATE_HZ):
            segments.append(_segment(one, len(segments), seconds))
            words += [
                Word(word.word, _rounded(word.start), min(_rounded(word.end), seconds))
                for word in one.words or ()
            ]
            running.progress(float(one.end) / seconds)
        if _is_written(job, language):
            segments, words = self._writer.written(segments, words, job.script)
        words = [replace(word, word=word.word.strip()) for word in words]
        return Transcript(language, seconds, segments, words)


def _is_written(job: TranscriptionJob, language: str) -> bool:
    """Whether the transcript is written in Chinese characters."""
    return language == _MANDARIN and not job.translate


def _within(found: Iterable[Any], seconds: float) -> Iterator[Any]:
    """The segments, ended where the sound ends: Whisper hears it in windows of 30 s, the rest of the last one
    silent."""
    for one in found:
        if one.start < seconds:
            one.end = min(one.end, seconds)
            for word in one.words or ():
                word.start, word.end = min(word.start, seconds), min(word.end, seconds)
            yield one


def read(path: Path) -> Sound:
    """The recording, mono at RATE_HZ. Raises SampleRefused."""
    too_long = SampleRefused(f"is longer than {RECORDING_MAX_S / 60:g} minutes; send parts of it.")
    try:
        with opened(path.read_bytes(), whole=False) as recording:
            sound: Sound = np.concatenate([*mono(recording, RATE_HZ, RECORDING_MAX_S, too_long)])
    except UnreadableRecording as error:
        message = str(error)
        raise SampleRefused(f"{message[0].lower()}{message[1:]}") from error
    np.nan_to_num(sound, copy=False, nan=0.0, posinf=0.0, neginf=0.0)
    return sound


def _segment(found: Any, number: int, seconds: float) -> Segment:
    return Segment(
        id=number,
        seek=int(found.seek),
        start=_rounded(found.start),
        end=min(_rounded(found.end), seconds),
        text=found.text,
        tokens=[int(token) for token in found.tokens],
        temperature=float(found.temperature or 0.0),
        avg_logprob=float(found.avg_logprob),
        compression_ratio=float(found.compression_ratio),
        no_speech_prob=float(found.no_speech_prob),
    )


def _rounded(seconds: float) -> float:
    return round(float(seconds), 3)

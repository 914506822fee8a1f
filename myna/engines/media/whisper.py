"""Whisper in a media child: what of a recording is speech, its language and its text."""

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np

from myna.engines.audio.loudness import Sound
from myna.engines.interface import EngineUnavailable, LanguageUnknown, SampleRefused
from myna.engines.media.job import (
    RECORDING_MAX_S,
    Segment,
    Transcript,
    TranscriptionJob,
    WhisperModel,
    Word,
)
from myna.engines.media.mandarin import PROMPTS, Writer
from myna.engines.media.recording import UnreadableRecording, mono, opened
from myna.engines.pool.child_main import RunningJob

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
        words = [msgspec.structs.replace(word, word=word.word.strip()) for word in words]
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

"""The child program that transcribes with Whisper, run by `child_program.py`.

Recordings come from callers: they are decoded here, by the decoders of the inspector, within the confinement
of all children.
"""

import os
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np
import numpy.typing as npt
import soxr

from myna.engines.inspector.recording import UnreadableRecording, opened
from myna.engines.interface import EngineUnavailable, SampleRefused
from myna.engines.pool.child_main import RunningJob, Work, silence_libraries
from myna.engines.whisper.job import (
    SOUND_MAX_S,
    Segment,
    Transcript,
    TranscriptionJob,
    WhisperModel,
    Word,
)
from myna.sandbox.limits import limit_resources

RATE_HZ: Final = 16_000
_BEAM_SIZE: Final = 5
_MEMORY_MAX_BYTES: Final = 4 * 2**30  # the model, and two hours of sound with their spectrum
_FILE_MAX_BYTES: Final = 2**20  # it writes none


class LoadedModel:
    """A loaded model. Raises EngineUnavailable."""

    def __init__(self, model: WhisperModel) -> None:
        try:
            from faster_whisper import WhisperModel as Model
        except ImportError as error:
            raise EngineUnavailable("faster-whisper is missing: install Myna's extra 'hear'.") from error
        try:
            self._model = Model(
                os.fsdecode(model.folder),
                device="cpu",
                compute_type="int8",
                cpu_threads=model.threads,
                local_files_only=True,
            )
        except (RuntimeError, ValueError, OSError) as error:
            raise EngineUnavailable(
                f"Whisper can't be loaded ({type(error).__name__}); get it again: myna models get whisper."
            ) from error

    def transcribe(self, job: TranscriptionJob, running: RunningJob) -> Transcript:
        """The transcript. Raises SampleRefused for a recording that can't be read, and for a language that
        the model does not know."""
        if job.language is not None and job.language not in self._model.supported_languages:
            raise SampleRefused("language: Whisper does not know this one; send a code like zh, or none.")
        sound = read(Path(os.fsdecode(job.source)))
        seconds = len(sound) / RATE_HZ
        found, about = self._model.transcribe(
            sound,
            task="translate" if job.translate else "transcribe",
            language=job.language,
            initial_prompt=job.prompt or None,
            beam_size=_BEAM_SIZE,
            temperature=job.temperature,
            word_timestamps=job.words,
        )
        segments: list[Segment] = []
        words: list[Word] = []
        for one in found:
            segments.append(_segment(one, len(segments)))
            words += [
                Word(word.word.strip(), _rounded(word.start), _rounded(word.end)) for word in one.words or ()
            ]
            running.progress(float(one.end) / seconds)
        return Transcript(str(about.language), round(seconds, 3), segments, words)


def read(path: Path) -> npt.NDArray[np.float32]:
    """The recording, mono at RATE_HZ. Raises SampleRefused."""
    blocks, frames = [], 0
    try:
        with opened(path.read_bytes(), whole=False) as recording:
            resampler = soxr.ResampleStream(recording.rate_hz, RATE_HZ, 1, dtype="float32")
            for block in recording.blocks:
                frames += len(block)
                if frames > SOUND_MAX_S * recording.rate_hz:
                    raise SampleRefused(
                        f"file: is longer than {SOUND_MAX_S / 60:g} minutes; send parts of it."
                    )
                blocks.append(resampler.resample_chunk(block.mean(axis=1)))
            blocks.append(resampler.resample_chunk(np.empty(0, np.float32), last=True))
    except UnreadableRecording as error:
        message = str(error)
        raise SampleRefused(f"file: {message[0].lower()}{message[1:]}") from error
    sound: npt.NDArray[np.float32] = np.concatenate(blocks)
    return np.nan_to_num(sound, nan=0.0, posinf=0.0, neginf=0.0)


def _segment(found: Any, number: int) -> Segment:
    return Segment(
        id=number,
        seek=int(found.seek),
        start=_rounded(found.start),
        end=_rounded(found.end),
        text=found.text,
        tokens=[int(token) for token in found.tokens],
        temperature=float(found.temperature or 0.0),
        avg_logprob=float(found.avg_logprob),
        compression_ratio=float(found.compression_ratio),
        no_speech_prob=float(found.no_speech_prob),
    )


def _rounded(seconds: float) -> float:
    return round(float(seconds), 3)


def warm(setup: bytes) -> Work:
    """Loads the model and returns the work."""
    os.environ["HF_HUB_OFFLINE"] = "1"  # a confined process can't reach a network anyway
    limit_resources(memory_max_bytes=_MEMORY_MAX_BYTES, file_max_bytes=_FILE_MAX_BYTES)
    loaded = LoadedModel(msgspec.msgpack.decode(setup, type=WhisperModel))
    silence_libraries()
    decoder = msgspec.msgpack.Decoder(TranscriptionJob)
    return lambda packed, running: loaded.transcribe(decoder.decode(packed), running)

"""The child program that decodes untrusted files, run by `pool/child_main.py`: it checks, converts and
transcribes them.

Its memory is limited, a crash or hang ends only this process, and the output of the libraries is discarded.
"""

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Final

import msgspec
import numpy as np

from myna.engines.audio.containers import Container, kind
from myna.engines.audio.encoders import FORMATS, HEAD_BYTES, RATE_HZ
from myna.engines.audio.loudness import CLIPPED, Sound, levels
from myna.engines.interface import EngineFailed, EngineUnavailable, NoAudio, SampleRefused, SoundTooLong
from myna.engines.media.job import (
    SAMPLE_MAX_BYTES,
    SAMPLE_MAX_S,
    SAMPLE_MIN_S,
    SPEECH_MAX_BYTES,
    SPEECH_MAX_S,
    VOICE_MIN_S,
    DecodeJob,
    Measured,
    MediaJob,
    MediaSetup,
    SampleJob,
    TranscodeJob,
    Transcript,
    TranscriptionJob,
)
from myna.engines.media.recording import Recording, UnreadableRecording, mono, opened
from myna.engines.media.whisper import LoadedModel
from myna.engines.pool.child_main import RunningJob, Work, silence_libraries
from myna.engines.sound import pcm_of
from myna.lib.files import AtomicFile
from myna.lib.sandbox import limit_resources

_QUIET_DB: Final = -50.0  # of full scale; speech is at -25 to -10
_CLIPPED_SHARE_MAX: Final = 0.001
_PADDING_S: Final = 0.5  # encoders and recorders add padding; 60.02 s must not be refused


def sample(job: SampleJob) -> Measured:
    """Writes the job's sample to its target. Raises SampleRefused or OSError, and then leaves no file."""
    too_large = (
        f"The file is over {SAMPLE_MAX_BYTES // 2**20} MB; send a shorter recording, or the same as mp3."
    )
    with _recording(job.source, SAMPLE_MAX_BYTES, SampleRefused, too_large) as recording:
        sound = _checked(recording)
    wav = FORMATS["wav"]
    data = wav.encoder().encode(pcm_of(sound))
    file = AtomicFile(Path(os.fsdecode(job.target)), Path(os.fsdecode(job.part)))
    try:
        file.begin()
        file.write(wav.with_length(data, len(sound)))
        size_bytes, sha256 = file.commit()
    finally:
        file.abort()
    return Measured(len(sound) / RATE_HZ, size_bytes, sha256)


def decode(job: DecodeJob) -> Measured:
    """The length of the job's mp3. Raises NoAudio or OSError."""
    with _speech(job.source, only_mp3=True) as recording:
        frames, silent = 0, True
        for block in recording.blocks:
            frames += len(block)
            silent = silent and not block.any()
            if frames > SPEECH_MAX_S * recording.rate_hz:
                raise NoAudio(f"The mp3 is longer than {SPEECH_MAX_S:g} s.")
    if silent:
        raise NoAudio("The mp3 is silent from its beginning to its end.")
    return Measured(frames / recording.rate_hz)


def transcode(job: TranscodeJob) -> Measured:
    """Writes the job's target. Raises NoAudio, SoundTooLong or OSError; then the caller removes it."""
    kind, samples = FORMATS[job.format], 0
    encoder = kind.encoder()
    too_long = SoundTooLong("The file makes more sound than the limit.")
    with _speech(job.source) as recording, Path(os.fsdecode(job.target)).open("x+b") as target:
        for sound in mono(recording, RATE_HZ, SPEECH_MAX_S, too_long):
            target.write(encoder.encode(pcm_of(sound)))
            samples += len(sound)
        target.write(encoder.finish())
        size_bytes = target.tell()
        target.seek(0)
        head = kind.with_length(target.read(HEAD_BYTES), samples)
        target.seek(0)
        target.write(head)
    return Measured(samples / RATE_HZ, size_bytes)


def _speech(path: bytes, *, only_mp3: bool = False) -> AbstractContextManager[Recording]:
    too_large = f"The file is over {SPEECH_MAX_BYTES // 2**20} MB."
    return _recording(path, SPEECH_MAX_BYTES, NoAudio, too_large, only_mp3=only_mp3)


@contextmanager
def _recording(
    path: bytes, size_max: int, refused: type[EngineFailed], too_large: str, *, only_mp3: bool = False
) -> Iterator[Recording]:
    """Opens a recording. Raises `refused` for one over so many bytes, without reading the rest, or of another
    container, and where it can't be decoded, also in the body."""
    with Path(os.fsdecode(path)).open("rb") as file:
        data = file.read(size_max + 1)
    if len(data) > size_max:
        raise refused(too_large)
    if only_mp3 and kind(data) is not Container.MP3:
        raise refused("The file is not an mp3.")
    try:
        with opened(data) as recording:
            yield recording
    except UnreadableRecording as error:
        raise refused(str(error)) from error


def _checked(recording: Recording) -> Sound:
    """The sound of a sample. Stops decoding at its maximum length. Raises SampleRefused."""
    frames = clipped_samples = 0

    def counted() -> Iterator[Sound]:
        nonlocal frames, clipped_samples
        for block in recording.blocks:
            frames += len(block)
            if not np.isfinite(block).all():
                raise SampleRefused(
                    "The recording has samples that are not numbers; export it again, as 16 bits."
                )
            clipped_samples += int(np.count_nonzero(np.abs(block) >= CLIPPED))
            yield block

    too_long = SampleRefused(f"The recording is longer than {SAMPLE_MAX_S:g} s; send a part of it.")
    counting = recording._replace(blocks=counted())
    sound = np.concatenate([*mono(counting, RATE_HZ, SAMPLE_MAX_S + _PADDING_S, too_long)])
    if frames < SAMPLE_MIN_S * recording.rate_hz:
        seconds = _tenths(frames / recording.rate_hz)
        raise SampleRefused(f"The recording is {seconds} s long; send at least {SAMPLE_MIN_S:g} s.")
    if clipped_samples > _CLIPPED_SHARE_MAX * frames * recording.channels:
        raise SampleRefused(
            "The recording is too loud and distorted; turn the microphone down and record again."
        )
    found = levels(sound, RATE_HZ)
    if found.loud_db < _QUIET_DB:
        raise SampleRefused("The recording is silent or nearly so; speak closer to the microphone.")
    if found.voice_s < VOICE_MIN_S:
        raise SampleRefused(
            f"Only {_tenths(found.voice_s)} s of the recording are clearly louder than its background; send"
            f" at least {VOICE_MIN_S:g} s of speech, recorded where it is quiet."
        )
    return sound


def _tenths(seconds: float) -> float:
    """Rounded down, so that a refused length is never shown as long enough."""
    return int(seconds * 10) / 10


def warm(packed: bytes) -> Work:
    """Limits the process, loads the model if it has one, and returns the work."""
    setup = msgspec.msgpack.decode(packed, type=MediaSetup)
    limit_resources(memory_max_bytes=setup.memory_max_bytes, file_max_bytes=setup.file_max_bytes)
    model = LoadedModel(setup.model) if setup.model else None
    silence_libraries()  # a line for each bad frame
    decoder = msgspec.msgpack.Decoder(MediaJob)

    def work(packed: bytes, running: RunningJob) -> Measured | Transcript:
        match decoder.decode(packed):
            case SampleJob() as job:
                return sample(job)
            case DecodeJob() as job:
                return decode(job)
            case TranscodeJob() as job:
                return transcode(job)
            case TranscriptionJob() as job if model is not None:
                return model.transcribe(job, running)
        raise EngineUnavailable("The process has no model.")

    return work

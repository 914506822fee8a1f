"""The child program that decodes untrusted files, run by `child_program.py`.

Its memory is limited, a crash or hang ends only this process, and the output of the libraries is discarded.
"""

import io
import os
import wave
from pathlib import Path

import msgspec
import numpy as np
import soxr

from myna.engines.audio.containers import Container, kind
from myna.engines.audio.levels import Sound, clipped, levels
from myna.engines.inspector.job import (
    SAMPLE_MAX_BYTES,
    SAMPLE_MAX_S,
    SAMPLE_MIN_S,
    SAMPLE_RATE_HZ,
    SPEECH_MAX_BYTES,
    SPEECH_MAX_S,
    VOICE_MIN_S,
    Inspected,
    SampleJob,
    SpeechJob,
)
from myna.engines.inspector.recording import Recording, UnreadableRecording, opened
from myna.engines.interface import NoAudio, SampleRefused
from myna.engines.pool.child_main import Work, silence_libraries
from myna.lib.files import AtomicFile
from myna.lib.sandbox import limit_resources

_MEMORY_MAX_BYTES = 256 * 2**20  # beyond what is loaded: the file, twice, and decoding
_FILE_MAX_BYTES = 4 * 2**20  # a sample of 60 s has 2.9 million
_QUIET_DB = -50.0  # of full scale; speech is at -25 to -10
_CLIPPED_SHARE_MAX = 0.001
_PADDING_S = 0.5  # encoders and recorders add padding; 60.02 s must not be refused
_FULL_SCALE = 32_767


def sample(job: SampleJob) -> Inspected:
    """Writes the job's sample to its target. Raises SampleRefused or OSError, and then leaves no file."""
    data = _read(job.source, SAMPLE_MAX_BYTES)
    if len(data) > SAMPLE_MAX_BYTES:
        raise SampleRefused(
            f"The file is over {SAMPLE_MAX_BYTES // 2**20} MB; send a shorter recording, or the same as mp3."
        )
    try:
        with opened(data) as recording:
            sound = _mono(recording)
    except UnreadableRecording as error:
        raise SampleRefused(str(error)) from error
    _check(sound)
    file = AtomicFile(Path(os.fsdecode(job.target)), Path(os.fsdecode(job.part)))
    try:
        file.begin()
        file.write(_wav(sound))
        size_bytes, sha256 = file.commit()
    finally:
        file.abort()
    return Inspected(len(sound) / SAMPLE_RATE_HZ, size_bytes, sha256)


def speech(job: SpeechJob) -> Inspected:
    """The length of the job's mp3. Raises NoAudio or OSError."""
    data = _read(job.source, SPEECH_MAX_BYTES)
    if len(data) > SPEECH_MAX_BYTES:
        raise NoAudio(f"The file is over {SPEECH_MAX_BYTES // 2**20} MB.")
    if kind(data) is not Container.MP3:
        raise NoAudio("The file is no mp3.")
    try:
        with opened(data) as recording:
            return Inspected(_length_s(recording))
    except UnreadableRecording as error:
        raise NoAudio(str(error)) from error


def _read(path: bytes, size_max: int) -> bytes:
    """At most one byte more than `size_max`."""
    with Path(os.fsdecode(path)).open("rb") as file:
        return file.read(size_max + 1)


def _mono(recording: Recording) -> Sound:
    """The mean of all channels, at the rate of a sample. Stops decoding at the maximum length of a sample."""
    resampler = soxr.ResampleStream(recording.rate_hz, SAMPLE_RATE_HZ, 1, dtype="float32")
    frames = clipped_samples = 0
    blocks = []
    for block in recording.blocks:
        frames += len(block)
        if frames > (SAMPLE_MAX_S + _PADDING_S) * recording.rate_hz:
            raise SampleRefused(f"The recording is longer than {SAMPLE_MAX_S:g} s; send a part of it.")
        if not np.isfinite(block).all():
            raise SampleRefused("The recording has samples that are no numbers; export it again, as 16 bits.")
        clipped_samples += clipped(block)
        blocks.append(resampler.resample_chunk(block.mean(axis=1)))
    if frames < SAMPLE_MIN_S * recording.rate_hz:
        seconds = _tenths(frames / recording.rate_hz)
        raise SampleRefused(f"The recording is {seconds} s long; send at least {SAMPLE_MIN_S:g} s.")
    if clipped_samples > _CLIPPED_SHARE_MAX * frames * recording.channels:
        raise SampleRefused(
            "The recording is too loud and distorted; turn the microphone down and record again."
        )
    blocks.append(resampler.resample_chunk(np.empty(0, np.float32), last=True))
    return np.concatenate(blocks)


def _check(sound: Sound) -> None:
    """Raises SampleRefused if there is not enough voice."""
    found = levels(sound, SAMPLE_RATE_HZ)
    if found.loud_db < _QUIET_DB:
        raise SampleRefused("The recording is silent or nearly so; speak closer to the microphone.")
    if found.voice_s < VOICE_MIN_S:
        raise SampleRefused(
            f"Only {_tenths(found.voice_s)} s of the recording are clearly louder than its background; send"
            f" at least {VOICE_MIN_S:g} s of speech, recorded where it is quiet."
        )


def _tenths(seconds: float) -> float:
    """Rounded down, so that a refused length is never shown as long enough."""
    return int(seconds * 10) / 10


def _wav(sound: Sound) -> bytes:
    file = io.BytesIO()
    with wave.open(file, "wb") as writer:
        writer.setnchannels(1)
        writer.setsampwidth(2)
        writer.setframerate(SAMPLE_RATE_HZ)
        writer.writeframes(np.rint(np.clip(sound, -1, 1) * _FULL_SCALE).astype("<i2").tobytes())
    return file.getvalue()


def _length_s(recording: Recording) -> float:
    frames, silent = 0, True
    for block in recording.blocks:
        frames += len(block)
        silent = silent and not block.any()
        if frames > SPEECH_MAX_S * recording.rate_hz:
            raise NoAudio(f"The mp3 is longer than {SPEECH_MAX_S:g} s.")
    if silent:
        raise NoAudio("The mp3 is silent from its beginning to its end.")
    return frames / recording.rate_hz


def _work(job: SampleJob | SpeechJob) -> Inspected:
    return sample(job) if isinstance(job, SampleJob) else speech(job)


def warm(_setup: bytes) -> Work:
    limit_resources(memory_max_bytes=_MEMORY_MAX_BYTES, file_max_bytes=_FILE_MAX_BYTES)
    silence_libraries()  # a line for each bad frame
    decoder = msgspec.msgpack.Decoder(SampleJob | SpeechJob)
    return lambda packed, _running: _work(decoder.decode(packed))

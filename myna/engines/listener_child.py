"""The program that listens to strangers' files: `python -m myna.engines.listener_child <parent's pid>`.

A file that makes a decoder ask for gigabytes finds none, one that makes it crash or hang costs this process
and nothing else, and what the libraries print of it is in nobody's log.
"""

import io
import os
import sys
import wave
from pathlib import Path

import msgspec
import numpy as np
import soxr

from myna.engines.child import Work, serve
from myna.engines.listener_job import (
    SAMPLE_MAX_BYTES,
    SAMPLE_MAX_S,
    SAMPLE_MIN_S,
    SAMPLE_RATE_HZ,
    SPEECH_MAX_BYTES,
    SPEECH_MAX_S,
    VOICE_MIN_S,
    Found,
    SampleJob,
    SpeechJob,
)
from myna.engines.recording import Recording, Unreadable, opened
from myna.engines.spoken import NoAudio, SampleRefused
from myna.sound.containers import Kind, kind
from myna.sound.landing import Landing
from myna.sound.levels import Sound, clipped, levels

if sys.platform != "win32":
    import resource

_MEMORY_MAX_BYTES = 256 * 2**20  # over what is loaded: the file, twice, and what decoding takes
_FILE_MAX_BYTES = 4 * 2**20  # a sample of 60 s has 2.9 million
_QUIET_DB = -50.0  # of full scale; speech is at -25 to -10
_CLIPPED_SHARE_MAX = 0.001
_PADDING_S = 0.5  # what encoders and recorders put behind a minute; nobody is told that 60.02 s are too much
_FULL_SCALE = 32_767


def sample(job: SampleJob) -> Found:
    """The job's sample at its target. Raises SampleRefused or OSError; then nothing stays behind."""
    data = _read(job.source, SAMPLE_MAX_BYTES)
    if len(data) > SAMPLE_MAX_BYTES:
        raise SampleRefused(
            f"The file is over {SAMPLE_MAX_BYTES // 2**20} MB; send a shorter recording, or the same as mp3."
        )
    try:
        with opened(data) as recording:
            sound = _mono(recording)
    except Unreadable as error:
        raise SampleRefused(str(error)) from error
    _check(sound)
    landing = Landing(Path(os.fsdecode(job.target)), Path(os.fsdecode(job.part)))
    try:
        landing.begin()
        landing.write(_wav(sound))
        size_bytes, sha256 = landing.commit()
    finally:
        landing.abort()
    return Found(len(sound) / SAMPLE_RATE_HZ, size_bytes, sha256)


def speech(job: SpeechJob) -> Found:
    """How long the job's mp3 sounds. Raises NoAudio or OSError."""
    data = _read(job.source, SPEECH_MAX_BYTES)
    if len(data) > SPEECH_MAX_BYTES:
        raise NoAudio(f"The file is over {SPEECH_MAX_BYTES // 2**20} MB.")
    if kind(data) is not Kind.MP3:
        raise NoAudio("The file is no mp3.")
    try:
        with opened(data) as recording:
            return Found(_length_s(recording))
    except Unreadable as error:
        raise NoAudio(str(error)) from error


def _read(path: bytes, size_max: int) -> bytes:
    """The file, of which one byte too many is enough."""
    with Path(os.fsdecode(path)).open("rb") as file:
        return file.read(size_max + 1)


def _mono(recording: Recording) -> Sound:
    """All channels in one, at the rate of a sample. Decodes no more than a sample may have."""
    resampler = soxr.ResampleStream(recording.rate_hz, SAMPLE_RATE_HZ, 1, dtype="float32")
    frames = loudest = 0
    pieces = []
    for block in recording.blocks:
        frames += len(block)
        if frames > (SAMPLE_MAX_S + _PADDING_S) * recording.rate_hz:
            raise SampleRefused(f"The recording is longer than {SAMPLE_MAX_S:g} s; send a part of it.")
        if not np.isfinite(block).all():
            raise SampleRefused("The recording has samples that are no numbers; export it again, as 16 bits.")
        loudest += clipped(block)
        pieces.append(resampler.resample_chunk(block.mean(axis=1)))
    if frames < SAMPLE_MIN_S * recording.rate_hz:
        seconds = _tenths(frames / recording.rate_hz)
        raise SampleRefused(f"The recording is {seconds} s long; send at least {SAMPLE_MIN_S:g} s.")
    if loudest > _CLIPPED_SHARE_MAX * frames * recording.channels:
        raise SampleRefused(
            "The recording is too loud and distorted; turn the microphone down and record again."
        )
    pieces.append(resampler.resample_chunk(np.empty(0, np.float32), last=True))
    return np.concatenate(pieces)


def _check(sound: Sound) -> None:
    """Raises SampleRefused where there is no voice to learn from."""
    found = levels(sound, SAMPLE_RATE_HZ)
    if found.loud_db < _QUIET_DB:
        raise SampleRefused("The recording is silent or nearly so; speak closer to the microphone.")
    if found.voice_s < VOICE_MIN_S:
        raise SampleRefused(
            f"Only {_tenths(found.voice_s)} s of the recording are clearly louder than its background; send"
            f" at least {VOICE_MIN_S:g} s of speech, recorded where it is quiet."
        )


def _tenths(seconds: float) -> float:
    """Rounded down, so that what is too short doesn't look long enough."""
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


def _limit() -> None:
    """What this process may take from here on; what it has loaded isn't counted."""
    if sys.platform != "win32":
        _lower(resource.RLIMIT_CORE, 0)
        _lower(resource.RLIMIT_FSIZE, _FILE_MAX_BYTES)
    if sys.platform == "linux":  # others don't hold RLIMIT_AS
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        _lower(resource.RLIMIT_AS, pages * resource.getpagesize() + _MEMORY_MAX_BYTES)


def _lower(limit: int, to: int) -> None:
    hard = resource.getrlimit(limit)[1]
    lower = to if hard == resource.RLIM_INFINITY else min(to, hard)
    resource.setrlimit(limit, (lower, lower))


def _silence_libraries() -> None:
    """Sends to nowhere what C code prints: a line for each bad frame. Python's own errors are still told."""
    sys.stderr = os.fdopen(os.dup(2), "w", buffering=1, errors="backslashreplace")
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    os.close(nowhere)


def _work(job: SampleJob | SpeechJob) -> Found:
    return sample(job) if isinstance(job, SampleJob) else speech(job)


def _warm(_setup: bytes) -> Work:
    _limit()
    _silence_libraries()
    decoder = msgspec.msgpack.Decoder(SampleJob | SpeechJob)
    return lambda packed, _tell: _work(decoder.decode(packed))


if __name__ == "__main__":
    serve(_warm)

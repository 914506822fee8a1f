"""Strangers' recordings, decoded piece by piece; only `listener_child.py` loads it, whose memory is bounded.

The container is told by its first bytes and the decoder is then told which one it is: FFmpeg left to guess
would take playlists, too, and fetch what they name.
"""

import contextlib
import io
from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np
import soundfile

from myna.sound import mpeg
from myna.sound.containers import Kind, breaks_off, kind, parts
from myna.sound.levels import Sound

try:
    import av
except ImportError:  # an extra: the recordings of phones and browsers
    av = None  # type: ignore[assignment]

RATE_MIN_HZ, RATE_MAX_HZ = 8_000, 192_000
CHANNELS_MAX = 8

_BLOCK_FRAMES: Final = 65_536
_SLACK_S: Final = 0.5  # what a stated length may lack: encoders' own silence, and rounding
_FFMPEG: Final = {Kind.MP4: "mov", Kind.WEBM: "matroska"}
_CODECS: Final = ("aac", "alac", "flac", "libopus", "mp3", "mp3float", "opus", "pcm_s16le", "vorbis")
_US_PER_S: Final = 1_000_000


class Unreadable(Exception):
    """No sound comes of these bytes. The message tells who sent them what to change."""


class Recording(NamedTuple):
    """Sound that is decoded as the blocks are taken; a block has one column for each channel."""

    rate_hz: int
    channels: int
    blocks: Iterator[Sound]


_FAULTS: Final = (soundfile.SoundFileError, MemoryError, *(() if av is None else (av.FFmpegError,)))
_READ_HERE: Final = "wav, flac, mp3 or ogg" if av is None else "wav, flac, mp3, ogg, m4a or webm"


def _damaged() -> Unreadable:
    return Unreadable("The file breaks off before its end, or is damaged; send it whole, or export it again.")


def _changing() -> Unreadable:
    return Unreadable("The file changes its sample rate or its channels midway; export it again.")


@contextlib.contextmanager
def opened(data: bytes) -> Iterator[Recording]:
    """The recording in these bytes. Raises Unreadable, in the body too, for what a decoder raises."""
    what = kind(data)
    if what is None:
        raise Unreadable(f"The file is no recording that can be read here; send {_READ_HERE}.")
    if what in _FFMPEG and av is None:
        raise Unreadable(
            f"Files in {what.value} can't be read here; send {_READ_HERE}, or have the operator install"
            " Myna with its extra 'm4a'."
        )
    if breaks_off(data, what):
        raise _damaged()
    try:
        with _by_ffmpeg(data, _FFMPEG[what]) if what in _FFMPEG else _by_sndfile(data, what) as recording:
            yield recording
    except _FAULTS as fault:
        raise _damaged() from fault


def _bounded(rate_hz: int, channels: int) -> None:
    """Raises Unreadable for what no microphone records. 0 is what FFmpeg says where it found out nothing."""
    if not rate_hz or not channels:
        raise _damaged()
    if not RATE_MIN_HZ <= rate_hz <= RATE_MAX_HZ:
        raise Unreadable(
            f"The file has {rate_hz} samples a second; export it with {RATE_MIN_HZ} to {RATE_MAX_HZ}."
        )
    if channels > CHANNELS_MAX:
        raise Unreadable(f"The file has {channels} channels; export it with one, or at most {CHANNELS_MAX}.")


@contextlib.contextmanager
def _by_sndfile(data: bytes, what: Kind) -> Iterator[Recording]:
    with soundfile.SoundFile(io.BytesIO(data)) as file:
        rate_hz, channels = file.samplerate, file.channels
    _bounded(rate_hz, channels)
    yield Recording(rate_hz, channels, _sndfile_blocks(data, what, rate_hz, channels))


def _sndfile_blocks(data: bytes, what: Kind, rate_hz: int, channels: int) -> Iterator[Sound]:
    """libsndfile ends an mp3 where its first frame of facts says, and guesses where there is none."""
    frames = 0
    for part in parts(data, what):
        with soundfile.SoundFile(io.BytesIO(part)) as file:
            if (file.samplerate, file.channels) != (rate_hz, channels):
                raise _changing()
            before = frames
            while len(block := file.read(_BLOCK_FRAMES, dtype="float32", always_2d=True)):
                frames += len(block)
                yield block
            stated = file.frames if what is not Kind.MP3 or mpeg.facts(part) else 0
            if frames - before < stated - _SLACK_S * rate_hz:
                raise _damaged()
    if what is Kind.MP3 and frames < (mpeg.duration_s(data) - _SLACK_S) * rate_hz:
        raise _damaged()


@contextlib.contextmanager
def _by_ffmpeg(data: bytes, name: str) -> Iterator[Recording]:
    options = {"codec_whitelist": ",".join(_CODECS)}
    with av.open(io.BytesIO(data), "r", format=name, options=options, metadata_errors="ignore") as container:
        if not container.streams.audio:
            raise Unreadable("The file has no sound in it; send a recording of a voice.")
        stream = container.streams.audio[0]
        codec = stream.codec_context
        if codec is None or codec.name not in _CODECS:
            raise Unreadable(
                f"The sound of the file is coded in a way that isn't read here; send {_READ_HERE}."
            )
        codec.thread_count = 1
        _bounded(stream.rate or 0, stream.channels)
        yield Recording(stream.rate, stream.channels, _ffmpeg_blocks(container, stream))


def _ffmpeg_blocks(container: "av.container.InputContainer", stream: "av.AudioStream") -> Iterator[Sound]:
    frames = 0
    resampler = av.AudioResampler(format="fltp", layout=stream.layout, rate=stream.rate)
    first = None
    for decoded in container.decode(stream):
        manner = (decoded.format.name, decoded.layout.name, decoded.sample_rate)
        first = first or manner
        if manner != first:
            raise _changing()
        for even in resampler.resample(decoded):
            frames += even.samples
            yield even.to_ndarray().T.astype(np.float32, copy=False)
    if frames < (_stated_s(container, stream) - _SLACK_S) * stream.rate:
        raise _damaged()


def _stated_s(container: "av.container.InputContainer", stream: "av.AudioStream") -> float:
    """The length that the file states, or 0. Where it states none, FFmpeg guesses, though not for opus."""
    if stream.duration and stream.time_base:
        return float(stream.duration * stream.time_base)
    if container.duration and stream.codec_context.name in ("opus", "libopus"):
        return container.duration / _US_PER_S
    return 0.0

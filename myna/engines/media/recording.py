"""Decodes untrusted recordings block by block. Only the media child, whose memory is limited, imports it.

The first bytes decide the container format, which is then given to the decoder. If FFmpeg guessed the format,
it would also accept playlists and open the files and URLs in them.
"""

import contextlib
import io
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import numpy as np
import soundfile
import soxr

from myna.engines.audio import mp3
from myna.engines.audio.containers import Container, is_truncated, kind, parts
from myna.engines.audio.loudness import Sound

try:
    import av
except ImportError:  # an extra: the recordings of phones and browsers
    av = None  # type: ignore[assignment]

RATE_MIN_HZ, RATE_MAX_HZ = 8_000, 192_000
CHANNELS_MAX = 8

_BLOCK_FRAMES: Final = 4096  # few: libsndfile loses all of a block in which the file breaks off
_SLACK_S: Final = 0.5  # tolerance of a stated length: encoder padding and rounding
_FFMPEG: Final = {
    Container.MP4: "mov",
    Container.WEBM: "matroska",
    Container.CAF: "caf",
    Container.AAC: "aac",
    Container.AMR: "amr",
}
_NO_LENGTH: Final = ("aac", "amr")
"""Formats of FFmpeg that state no length; FFmpeg guesses one from the bit rate."""
_CODECS: Final = (
    *("aac", "alac", "amrnb", "amrwb", "flac", "libopus", "mp3", "mp3float", "opus", "vorbis"),
    *("pcm_f32be", "pcm_f32le", "pcm_s16be", "pcm_s16le", "pcm_s24be", "pcm_s24le", "pcm_s32be", "pcm_s32le"),
)
_FRAMES_MAX: Final = 2**62  # libsndfile states more than that for a stream of unknown length
_US_PER_S: Final = 1_000_000


class _SequentialFile(soundfile.SoundFile):  # type: ignore[misc]
    """A file that is read from its beginning to its end. soundfile would seek in it after each block, which
    libsndfile can't in FLAC that states no length, as encoders write it to a stream."""

    def seekable(self) -> bool:
        return False


class UnreadableRecording(Exception):
    """The recording can't be decoded. The message tells its sender what to change."""


class DamagedRecording(UnreadableRecording):
    """The recording breaks off, or can't be decoded from some point on."""

    def __init__(self) -> None:
        super().__init__(
            "The file breaks off before its end, or is damaged; send it whole, or export it again."
        )


class Recording(NamedTuple):
    """Sound that is decoded block by block, as the iterator is consumed; one column for each channel."""

    rate_hz: int
    channels: int
    blocks: Iterator[Sound]


_DECODER_ERRORS: Final = (soundfile.SoundFileError, MemoryError, *(() if av is None else (av.FFmpegError,)))
_READ_HERE: Final = (
    "wav, aiff, flac, mp3 or ogg" if av is None else "wav, aiff, flac, mp3, ogg, m4a, aac, amr, caf or webm"
)


def _changing() -> UnreadableRecording:
    return UnreadableRecording("The file changes its sample rate or its channels midway; export it again.")


@contextlib.contextmanager
def opened(data: bytes, *, whole: bool = True) -> Iterator[Recording]:
    """The recording in these bytes. Raises UnreadableRecording, also from errors of a decoder in the body.

    A recording that breaks off is an error, or with `whole=False` ends there, if any of it can be decoded.
    """
    container = kind(data)
    if container is None:
        raise UnreadableRecording(f"The file is not a recording that Myna can read; send {_READ_HERE}.")
    if container in _FFMPEG and av is None:
        raise UnreadableRecording(
            f"Files in {container.value} can't be read here; send {_READ_HERE}, or have the operator install"
            " Myna with its extra 'm4a'."
        )
    if whole and is_truncated(data, container):
        raise DamagedRecording
    try:
        format_name = _FFMPEG.get(container)
        with _ffmpeg(data, format_name) if format_name else _sndfile(data, container) as recording:
            yield recording if whole else recording._replace(blocks=_readable(recording.blocks))
    except _DECODER_ERRORS as error:
        raise DamagedRecording from error


def mono(recording: Recording, rate_hz: int, max_s: float, too_long: Exception) -> Iterator[Sound]:
    """The mean of all channels, at this rate. Raises `too_long` after so many seconds."""
    resampler = soxr.ResampleStream(recording.rate_hz, rate_hz, 1, dtype="float32")
    frames = 0
    for block in recording.blocks:
        frames += len(block)
        if frames > max_s * recording.rate_hz:
            raise too_long
        yield resampler.resample_chunk(block.mean(axis=1))
    yield resampler.resample_chunk(np.empty(0, np.float32), last=True)


def _readable(blocks: Iterator[Sound]) -> Iterator[Sound]:
    """The blocks before the one that can't be decoded. Raises its error if it is the first one."""
    found = False
    try:
        for block in blocks:
            yield block
            found = True
    except (DamagedRecording, *_DECODER_ERRORS):
        if not found:
            raise


def _check_format(rate_hz: int, channels: int) -> None:
    """Raises UnreadableRecording for rates and channels out of range; 0 is FFmpeg's value for unknown."""
    if not rate_hz or not channels:
        raise DamagedRecording
    if not RATE_MIN_HZ <= rate_hz <= RATE_MAX_HZ:
        raise UnreadableRecording(
            f"The file has {rate_hz} samples a second; export it with {RATE_MIN_HZ} to {RATE_MAX_HZ}."
        )
    if channels > CHANNELS_MAX:
        raise UnreadableRecording(
            f"The file has {channels} channels; export it with one, or at most {CHANNELS_MAX}."
        )


@contextlib.contextmanager
def _sndfile(data: bytes, container: Container) -> Iterator[Recording]:
    with soundfile.SoundFile(io.BytesIO(data)) as file:
        rate_hz, channels = file.samplerate, file.channels
    _check_format(rate_hz, channels)
    yield Recording(rate_hz, channels, _sndfile_blocks(data, container, rate_hz, channels))


def _sndfile_blocks(data: bytes, container: Container, rate_hz: int, channels: int) -> Iterator[Sound]:
    """Decodes each part of the file. libsndfile ends an mp3 at the length in its Xing header, and guesses the
    length without one."""
    frames = 0
    for part in parts(data, container):
        with _SequentialFile(io.BytesIO(part)) as file:
            if (file.samplerate, file.channels) != (rate_hz, channels):
                raise _changing()
            before = frames
            while len(block := file.read(_BLOCK_FRAMES, dtype="float32", always_2d=True)):
                frames += len(block)
                yield block
            guessed = container is Container.MP3 and not mp3.info_frames(part)
            stated = 0 if guessed or file.frames > _FRAMES_MAX else file.frames
            if frames - before < stated - _SLACK_S * rate_hz:
                raise DamagedRecording
    if container is Container.MP3 and frames < (mp3.duration_s(data) - _SLACK_S) * rate_hz:
        raise DamagedRecording


@contextlib.contextmanager
def _ffmpeg(data: bytes, format_name: str) -> Iterator[Recording]:
    options = {"codec_whitelist": ",".join(_CODECS)}
    # Until version 19 PyAV decodes all tags as it opens a file, and would fail at one that is no UTF-8.
    old = int(av.__version__.partition(".")[0]) < 19
    tags: dict[str, Any] = {"metadata_errors": "ignore"} if old else {}
    with av.open(io.BytesIO(data), "r", format=format_name, options=options, **tags) as file:
        if not file.streams.audio:
            raise UnreadableRecording("The file has no sound in it; send a recording of a voice.")
        stream = file.streams.audio[0]
        codec = stream.codec_context
        if codec is None or codec.name not in _CODECS:
            raise UnreadableRecording(
                f"The sound of the file is coded in a way that isn't read here; send {_READ_HERE}."
            )
        codec.thread_count = 1
        _check_format(stream.rate or 0, stream.channels)
        yield Recording(stream.rate, stream.channels, _ffmpeg_blocks(file, stream))


def _ffmpeg_blocks(file: "av.container.InputContainer", stream: "av.AudioStream") -> Iterator[Sound]:
    frames = 0
    resampler = av.AudioResampler(format="fltp", layout=stream.layout, rate=stream.rate)
    first = None
    for decoded in file.decode(stream):
        sample_format = (decoded.format.name, decoded.layout.name, decoded.sample_rate)
        first = first or sample_format
        if sample_format != first:
            raise _changing()
        for block in resampler.resample(decoded):
            frames += block.samples
            yield block.to_ndarray().T.astype(np.float32, copy=False)
    if frames < (_stated_s(file, stream) - _SLACK_S) * stream.rate:
        raise DamagedRecording


def _stated_s(file: "av.container.InputContainer", stream: "av.AudioStream") -> float:
    """The length that the file states, or 0. The container's length is a guess of FFmpeg, except for opus."""
    if file.format.name in _NO_LENGTH:
        return 0.0
    if stream.duration and stream.time_base:
        return float(stream.duration * stream.time_base)
    if file.duration and stream.codec_context.name in ("opus", "libopus"):
        return file.duration / _US_PER_S
    return 0.0

"""Recordings in the containers of phones and browsers, by FFmpeg."""

import io
from typing import Final, NamedTuple, cast

import av
import numpy as np
from numpy.typing import NDArray

RATE_HZ = 48_000


class _Container(NamedTuple):
    container: str
    codec: str
    options: dict[str, str]
    rate_hz: int = RATE_HZ


_FRAGMENTS = {"movflags": "frag_keyframe+empty_moov"}
FFMPEG_SHAPES: Final = {
    "m4a": _Container("ipod", "aac", {}),
    "m4a without loss": _Container("ipod", "alac", {}),
    "mp4 in fragments": _Container("mp4", "aac", _FRAGMENTS),
    "mp4 in fragments, opus": _Container("mp4", "libopus", _FRAGMENTS),
    "webm": _Container("webm", "libopus", {}),
    "webm that states no length": _Container("webm", "libopus", {"live": "1"}),
    "aac": _Container("adts", "aac", {}),
    "amr": _Container("amr", "libopencore_amrnb", {}, 8_000),
    "caf": _Container("caf", "alac", {}),
    "caf without compression": _Container("caf", "pcm_s16be", {}),
}
WITHOUT_LENGTH: Final = ("webm that states no length", "aac", "amr")
"""Of these a part is a whole file."""
FILM: Final = "mp4 with the sound of a film"
_SHAPES: Final = FFMPEG_SHAPES | {FILM: _Container("mp4", "ac3", {})}


def ffmpeg_file(name: str, sound: NDArray[np.float32], *, picture: bool = False) -> bytes:
    """The sound, mono at RATE_HZ, in one of FFMPEG_SHAPES or FILM, with a moving picture if wished."""
    shape = _SHAPES[name]
    file = io.BytesIO()
    with av.open(file, "w", format=shape.container, options=shape.options) as container:
        film = container.add_stream("mpeg4", rate=5, width=64, height=64) if picture else None
        stream = cast(av.AudioStream, container.add_stream(shape.codec, rate=shape.rate_hz, layout="mono"))
        frame = av.AudioFrame.from_ndarray(sound.reshape(1, -1), format="flt", layout="mono")
        frame.sample_rate = RATE_HZ
        resampler = av.AudioResampler(format=stream.format, layout="mono", rate=shape.rate_hz)
        for even in [*resampler.resample(frame), *resampler.resample(None), None]:
            container.mux(stream.encode(even))
        if film is not None:
            black = av.VideoFrame.from_ndarray(np.zeros((64, 64, 3), np.uint8), format="rgb24")
            container.mux([*film.encode(black), *film.encode(None)])
    return file.getvalue()

"""The child program that converts speech, run by `child_program.py`.

The mp3 may come from a speech server or a compute node, so its decoder runs here, with limited memory.
"""

import os
from pathlib import Path
from typing import Final

import msgspec
import numpy as np
import soxr

from myna.engines.audio.encoders import HEAD_BYTES, RATE_HZ, encoder_of, with_length
from myna.engines.audio.levels import Sound
from myna.engines.inspector.recording import UnreadableRecording, opened
from myna.engines.interface import NoAudio, SoundTooLong
from myna.engines.pool.child_main import Work, silence_libraries
from myna.engines.sound import pcm_of
from myna.engines.transcoder.job import SOUND_MAX_S, SOURCE_MAX_BYTES, Transcoded, TranscodeJob
from myna.lib.sandbox import limit_resources

_MEMORY_MAX_BYTES: Final = 256 * 2**20  # beyond what is loaded: the file, twice, and decoding
_FILE_MAX_BYTES: Final = 256 * 2**20  # an hour of PCM has 173 million


def transcode(job: TranscodeJob) -> Transcoded:
    """Writes the job's target. Raises NoAudio, SoundTooLong or OSError; then the caller removes it."""
    with Path(os.fsdecode(job.source)).open("rb") as file:
        data = file.read(SOURCE_MAX_BYTES + 1)
    if len(data) > SOURCE_MAX_BYTES:
        raise NoAudio(f"The file is over {SOURCE_MAX_BYTES // 2**20} MB.")
    encoder, frames, samples = encoder_of(job.format), 0, 0
    try:
        with opened(data) as recording, Path(os.fsdecode(job.target)).open("x+b") as target:
            resampler = soxr.ResampleStream(recording.rate_hz, RATE_HZ, 1, dtype="float32")
            for block in recording.blocks:
                frames += len(block)
                if frames > SOUND_MAX_S * recording.rate_hz:
                    raise SoundTooLong("The file makes more sound than the limit.")
                sound: Sound = resampler.resample_chunk(block.mean(axis=1))
                target.write(encoder.encode(pcm_of(sound)))
                samples += len(sound)
            rest: Sound = resampler.resample_chunk(np.empty(0, np.float32), last=True)
            target.write(encoder.encode(pcm_of(rest)) + encoder.finish())
            size_bytes = target.tell()
            target.seek(0)
            head = with_length(job.format, target.read(HEAD_BYTES), samples + len(rest))
            target.seek(0)
            target.write(head)
            return Transcoded(frames / recording.rate_hz, size_bytes)
    except UnreadableRecording as error:
        raise NoAudio(str(error)) from error


def warm(_setup: bytes) -> Work:
    limit_resources(memory_max_bytes=_MEMORY_MAX_BYTES, file_max_bytes=_FILE_MAX_BYTES)
    silence_libraries()  # a line for each bad frame
    decoder = msgspec.msgpack.Decoder(TranscodeJob)
    return lambda packed, _running: transcode(decoder.decode(packed))

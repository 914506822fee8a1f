"""The child program that speaks with Kokoro, run by `pool/child_main.py`.

One run of the model takes some 180 MB and 1.2 MB for each symbol, so `text/pieces.py` keeps pieces short.
"""

import contextlib
import functools
import mmap
import os
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np
import numpy.typing as npt

from myna.engines.audio.loudness import Sound, levelled
from myna.engines.audio.stretch import Stretch
from myna.engines.interface import EngineFailed, EngineUnavailable, WordTime
from myna.engines.kokoro.job import (
    MODEL_FILE,
    RATE_HZ,
    VOICES_FOLDER,
    KokoroModel,
    PieceJob,
    PieceSound,
    StyleShare,
)
from myna.engines.kokoro.symbols import NUMBERS, SYMBOLS_MAX
from myna.engines.pool.child_main import RunningJob, Work, silence_libraries
from myna.engines.sound import pcm_of
from myna.lib.sandbox import unnamed_file

_PROVIDERS: Final = {"cuda": "CUDAExecutionProvider", "coreml": "CoreMLExecutionProvider"}
_STYLE_SHAPE: Final = (SYMBOLS_MAX, 1, 256)
_OWN_SPEED: Final = (0.8, 1.25)
"""Within this range the model changes its speed itself; beyond, the rest is stretched: see decision 0016."""
_SILENT: Final = 0.004  # of 1: -48 dBFS
_MARGIN_S: Final = 0.03  # kept around the sound, so that a soft consonant at its end is not cut off
_FADE_S: Final = 0.005
_TRIAL: Final = "ni↓xau↓"
_LENGTHS: Final = "/encoder/Clip_output_0"
"""The result within the model that has the length of each symbol, in units of 600 samples. A sound begins
two units before the end of the symbol before it, as measured by where it becomes loud."""
_LENGTH_SAMPLES: Final = 600
_EARLIER: Final = 2


class LoadedModel:
    """A loaded model. Raises EngineUnavailable."""

    def __init__(self, model: KokoroModel) -> None:
        self._folder = Path(os.fsdecode(model.folder))
        self._session = _session(self._folder / MODEL_FILE, model)
        self._voice = functools.cache(self._read_voice)

    def speak(self, job: PieceJob) -> PieceSound:
        """The sound of the piece. Raises EngineFailed."""
        began_s = time.monotonic()
        numbers = [NUMBERS[symbol] for symbol in job.phonemes]
        own = min(max(job.speed, _OWN_SPEED[0]), _OWN_SPEED[1])
        samples, *lengths = self._session.run(
            None,
            {
                "tokens": [[0, *numbers, 0]],
                "style": self._style(job.style, len(numbers)),
                "speed": np.array([own], np.float32),
            },
        )
        if not np.isfinite(samples).all():
            raise EngineFailed("The model returned samples that are not finite.")
        sounding = _sounding(samples)
        pcm = pcm_of(levelled(_faded(samples[sounding]), RATE_HZ))
        if job.speed != own:
            tempo = Stretch(RATE_HZ, own / job.speed)
            pcm = tempo.feed(pcm) + tempo.flush()
        times: list[WordTime] = []
        if lengths:
            begins = (np.cumsum(lengths[0]) - _EARLIER) * _LENGTH_SAMPLES - sounding.start
            begins[0] = min(begins[0], _MARGIN_S * RATE_HZ)
            begins_s = begins.clip(0, sounding.stop - sounding.start) / RATE_HZ * own / job.speed
            times = [
                WordTime(word.text, float(begins_s[word.begin]), float(begins_s[word.end]))
                for word in job.words
            ]
        return PieceSound(pcm, time.monotonic() - began_s, times)

    def _style(self, shares: Sequence[StyleShare], symbols: int) -> npt.NDArray[np.float32]:
        """The voices' styles for this count of symbols, mixed: the first half is the sound, the second the
        prosody."""
        row = min(symbols, SYMBOLS_MAX - 1)
        style = np.zeros(_STYLE_SHAPE[1:], np.float32)
        for part in shares:
            halves = np.array([part.sound, part.prosody], np.float32)
            style += np.repeat(halves, _STYLE_SHAPE[2] // 2) * self._voice(part.voice)[row]
        return style

    def _read_voice(self, name: str) -> npt.NDArray[np.float32]:
        try:
            return np.fromfile(self._folder / VOICES_FOLDER / f"{name}.bin", "<f4").reshape(_STYLE_SHAPE)
        except (OSError, ValueError) as error:
            raise EngineFailed(f"The file of the voice {name} is missing or damaged.") from error


def _session(file: Path, model: KokoroModel) -> Any:
    """The runtime is imported here, since it may be missing on this platform. Its builds since 1.29 send
    telemetry unless told not to."""
    os.environ["ORT_DISABLE_TELEMETRY"] = "1"
    try:
        import onnxruntime
    except ImportError as error:
        raise EngineUnavailable("onnxruntime can't be loaded; it has wheels for Linux and macOS.") from error
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = model.threads
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.enable_mem_pattern = False  # it keeps an allocation for each input length: decision 0016
    wanted = _PROVIDERS.get(model.provider)
    if wanted is not None and wanted not in onnxruntime.get_available_providers():
        raise EngineUnavailable(f"This build of onnxruntime has no {model.provider}.")
    providers = ["CPUExecutionProvider"] if wanted is None else [wanted, "CPUExecutionProvider"]
    load = functools.partial(onnxruntime.InferenceSession, sess_options=options, providers=providers)
    try:
        with _with_lengths(file) as path:
            return load(path)
    except Exception as error:  # onnxruntime has no common class of errors
        raise EngineUnavailable(
            f"{MODEL_FILE} can't be loaded ({type(error).__name__}); get it again: myna models get kokoro."
        ) from error


@contextlib.contextmanager
def _with_lengths(file: Path) -> Iterator[str]:
    """The path of the model with `_LENGTHS` among its results; that of the file if it has no such value, and
    then words have no times. Messages of Protocol Buffers that follow each other are one: this adds a graph
    (field 7) with a result (12) that has a name (1).

    A session that is made of bytes would keep them, 92 MB. One that is made of a path does not."""
    name = _LENGTHS.encode()
    with file.open("rb") as model, mmap.mmap(model.fileno(), 0, access=mmap.ACCESS_READ) as whole:
        if whole.find(name) < 0:
            yield str(file)
            return
        for field in (1, 12, 7):
            name = bytes((field << 3 | 2, len(name))) + name
        with unnamed_file((whole, name)) as path:
            yield path


def _sounding(samples: Sound) -> slice:
    """Where the sound is, without the silence at its ends; nowhere if all is silent."""
    loud = np.flatnonzero(np.abs(samples) > _SILENT)
    if not len(loud):
        return slice(0, 0)
    margin = round(_MARGIN_S * RATE_HZ)
    return slice(max(0, int(loud[0]) - margin), min(len(samples), int(loud[-1]) + margin + 1))


def _faded(samples: Sound) -> Sound:
    """The sound, faded in and out."""
    sound = samples.copy()
    fade = np.linspace(0, 1, min(round(_FADE_S * RATE_HZ), len(sound)), dtype=np.float32)
    sound[: len(fade)] *= fade
    sound[len(sound) - len(fade) :] *= fade[::-1]
    return sound


def warm(setup: bytes) -> Work:
    """Loads the model, runs it once, and returns the work."""
    model = msgspec.msgpack.decode(setup, type=KokoroModel)
    silence_libraries()  # onnxruntime's messages name paths
    loaded = LoadedModel(model)
    loaded.speak(PieceJob(_TRIAL, [], 1.0))  # the first run takes longer
    decoder = msgspec.msgpack.Decoder(PieceJob)

    def work(packed: bytes, _running: RunningJob) -> PieceSound:
        return loaded.speak(decoder.decode(packed))

    return work

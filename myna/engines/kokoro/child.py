"""The child program that speaks with Kokoro, run by `pool/child_main.py`.

One run of the model takes some 180 MB and 1.2 MB for each symbol, so `text/pieces.py` keeps pieces short.
The silence at the ends of a piece, up to two thirds of it, is not decoded.
"""

import functools
import mmap
import os
import re
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

import msgspec
import numpy as np
import numpy.typing as npt

from myna.engines.audio.loudness import Sound, levelled
from myna.engines.audio.stretch import Stretch
from myna.engines.interface import EngineFailed, EngineUnavailable, WordTime
from myna.engines.kokoro.decoder import SHARES
from myna.engines.kokoro.halves import ENERGY, FRAMES, PITCH, halves
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
_ENGLISH_SPEED: Final = 0.85
"""That of English words among Mandarin ones: see decision 0015."""
_ENGLISH: Final = re.compile("[A-Za-z]")
_SILENT: Final = 0.004  # of 1: -48 dBFS
_MARGIN_S: Final = 0.03  # kept around the sound, so that a soft consonant at its end is not cut off
_FADE_S: Final = 0.005
_TRIAL: Final = {
    "tokens": [[0, *(NUMBERS[symbol] for symbol in "ni↓xau↓"), 0]],
    "style": np.zeros(_STYLE_SHAPE[1:], np.float32),
    "speed": np.ones(1, np.float32),
}
_FRAME_SAMPLES: Final = 600
_EARLIER: Final = 2
"""A sound begins so many frames before the end of the symbol before it, by where it becomes loud."""
_SILENT_ENERGY: Final = -2.0
"""The model's energy of a frame, a logarithm, is -9 in silence and -4 to 1 where a sound begins or ends."""
_AROUND: Final = 5
"""So many frames of silence are decoded before the sound, and after it."""
_STAND_IN: Final = 3
"""So many of them count for the silence that is not decoded, from the second one on: beside the outermost one
the decoder has zeros."""

Floats = npt.NDArray[np.float32]


class _Raw(NamedTuple):
    """What the model speaks: samples, those before them that were not decoded, and the frames of each symbol,
    if they are known."""

    samples: Sound
    before: int
    lengths: Floats | None


Run = Callable[[dict[str, Any]], _Raw]
"""Runs a model with its inputs: `tokens`, `style` and `speed`, that of all symbols or [1, symbols]."""
R = TypeVar("R", bound=Run)


class LoadedModel:
    """A loaded model. Raises EngineUnavailable."""

    def __init__(self, model: KokoroModel) -> None:
        self._folder = Path(os.fsdecode(model.folder))
        self.run = _loaded(self._folder / MODEL_FILE, model)
        self._voice = functools.cache(self._read_voice)

    def speak(self, job: PieceJob) -> PieceSound:
        """The sound of the piece. Raises EngineFailed."""
        began_s = time.monotonic()
        numbers = [NUMBERS[symbol] for symbol in job.phonemes]
        own = min(max(job.speed, _OWN_SPEED[0]), _OWN_SPEED[1])
        raw = self.run(
            {
                "tokens": [[0, *numbers, 0]],
                "style": self.style(job.style, len(numbers)),
                "speed": _speeds(job, own),
            }
        )
        samples = raw.samples
        if not np.isfinite(samples).all():
            raise EngineFailed("The model returned samples that are not finite.")
        sounding = _sounding(samples)
        pcm = pcm_of(levelled(_faded(samples[sounding]), RATE_HZ))
        if job.speed != own:
            tempo = Stretch(RATE_HZ, own / job.speed)
            pcm = tempo.feed(pcm) + tempo.flush()
        times: list[WordTime] = []
        if raw.lengths is not None:
            begins = (np.cumsum(raw.lengths) - _EARLIER) * _FRAME_SAMPLES - raw.before - sounding.start
            begins[0] = min(begins[0], _MARGIN_S * RATE_HZ)
            begins_s = begins.clip(0, sounding.stop - sounding.start) / RATE_HZ * own / job.speed
            times = [
                WordTime(word.text, float(begins_s[word.begin]), float(begins_s[word.end]))
                for word in job.words
            ]
        return PieceSound(pcm, time.monotonic() - began_s, times)

    def style(self, shares: Sequence[StyleShare], symbols: int) -> npt.NDArray[np.float32]:
        """The voices' styles for this count of symbols, mixed: the first half is the sound, the second the
        prosody."""
        row = min(symbols, SYMBOLS_MAX - 1)
        style = np.zeros(_STYLE_SHAPE[1:], np.float32)
        for part in shares:
            by_half = np.array([part.sound, part.prosody], np.float32)
            style += np.repeat(by_half, _STYLE_SHAPE[2] // 2) * self._voice(part.voice)[row]
        return style

    def _read_voice(self, name: str) -> npt.NDArray[np.float32]:
        try:
            return np.fromfile(self._folder / VOICES_FOLDER / f"{name}.bin", "<f4").reshape(_STYLE_SHAPE)
        except (OSError, ValueError) as error:
            raise EngineFailed(f"The file of the voice {name} is missing or damaged.") from error


def _loaded(file: Path, model: KokoroModel) -> Run:
    """The runtime is imported here, since it may be missing on this platform. Its builds since 1.29 send
    telemetry unless told not to."""
    os.environ["ORT_DISABLE_TELEMETRY"] = "1"
    try:
        import onnxruntime
    except ImportError as error:
        raise EngineUnavailable("onnxruntime can't be loaded; it has wheels for Linux and macOS.") from error
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = model.threads
    # A longer spin starts no node earlier, and slows the other processes down: decision 0016.
    options.add_session_config_entry("session.intra_op.spin_duration_us", "100")
    options.enable_mem_pattern = False  # it keeps an allocation for each input length: decision 0016
    wanted = _PROVIDERS.get(model.provider)
    if wanted is not None and wanted not in onnxruntime.get_available_providers():
        raise EngineUnavailable(f"This build of onnxruntime has no {model.provider}.")
    providers = ["CPUExecutionProvider"] if wanted is None else [wanted, "CPUExecutionProvider"]
    load = functools.partial(onnxruntime.InferenceSession, sess_options=options, providers=providers)
    try:
        return _in_halves(file, model, load) or _tried(_whole(load(str(file))))
    except Exception as error:  # onnxruntime has no common class of errors
        raise EngineUnavailable(
            f"{MODEL_FILE} can't be loaded ({type(error).__name__}); get it again: myna models get kokoro."
        ) from error


def _in_halves(file: Path, model: KokoroModel, load: Callable[[str], Any]) -> "_Halves | None":
    """None if the model's values have other names, types or sizes than those that the halves are made for.
    Raises ValueError or IndexError if the file is damaged."""
    with file.open("rb") as opened:
        whole = memoryview(mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ))
        found = halves(whole, signed=model.signed)
    if found is None:
        return None
    sessions = []
    try:
        for parts in found:
            # A session that is made of bytes would keep them. One that is made of a path does not.
            with unnamed_file(parts) as path:
                sessions.append(load(path))
        return _tried(_Halves(*sessions))
    except Exception:  # onnxruntime has no common class of errors
        return None  # the file as a whole may be one that it loads


def _tried(run: R) -> R:
    """The model after its first run, which takes longer. Raises what the runtime raises."""
    run(_TRIAL)
    return run


def _whole(session: Any) -> Run:
    """A model whose values have other names or types. It takes one speed, and tells no lengths."""
    return lambda inputs: _Raw(session.run(None, inputs | {"speed": inputs["speed"].flat[:1]})[0], 0, None)


class _Halves:
    """A model that decodes only the frames that sound."""

    def __init__(self, encoder: Any, decoder: Any) -> None:
        self._encoder, self._decoder = encoder, decoder

    def __call__(self, inputs: dict[str, Any]) -> _Raw:
        frames, pitch, energy, lengths = _results(self._encoder, inputs)
        count = frames.shape[2]
        begin, end = _decoded(energy[0])
        shares = np.ones(end - begin, np.float32)
        shares[1 : 1 + _STAND_IN] += begin / _STAND_IN
        shares[-1 - _STAND_IN : -1] += (count - end) / _STAND_IN
        decoded = {
            FRAMES: frames[:, :, begin:end],
            PITCH: pitch[:, 2 * begin : 2 * end],
            ENERGY: energy[:, 2 * begin : 2 * end],
            "style": inputs["style"],
            **{name: _spread(shares / count, values) for values, name in SHARES.items()},
        }
        return _Raw(_results(self._decoder, decoded)[0], begin * _FRAME_SAMPLES, lengths[0])


def _speeds(job: PieceJob, own: float) -> Floats:
    """The speed of each symbol, and of the marks at both ends."""
    speeds = np.full((1, len(job.phonemes) + 2), own, np.float32)
    english = [word for word in job.words if _ENGLISH.match(word.text)] if job.mixed else []
    if len(english) < len(job.words):
        for word in english:
            speeds[0, 1 + word.begin : 1 + word.end] = max(_ENGLISH_SPEED * own, _OWN_SPEED[0])
    return speeds


def _results(session: Any, values: dict[str, Any]) -> list[Any]:
    """Runs a half of the model with those of the values that it takes."""
    return list(session.run(None, {one.name: values[one.name] for one in session.get_inputs()}))


def _decoded(energy: Floats) -> tuple[int, int]:
    """Which frames are decoded, by the energies of their halves; all of them if all are silent."""
    count = len(energy) // 2
    sounding = np.flatnonzero(energy > _SILENT_ENERGY) // 2
    if not len(sounding):
        return 0, count
    return max(int(sounding[0]) - _AROUND, 0), min(int(sounding[-1]) + 1 + _AROUND, count)


def _spread(shares: Floats, values: int) -> Floats:
    """The shares of the values of each frame; see SHARES."""
    spread = np.repeat(shares / np.float32(values), values)
    return (np.append(spread, spread[-1]) if values == 120 else spread)[:, np.newaxis]


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
    """Loads the model, and returns the work."""
    model = msgspec.msgpack.decode(setup, type=KokoroModel)
    silence_libraries()  # onnxruntime's messages name paths
    loaded = LoadedModel(model)
    decoder = msgspec.msgpack.Decoder(PieceJob)

    def work(packed: bytes, _running: RunningJob) -> PieceSound:
        return loaded.speak(decoder.decode(packed))

    return work

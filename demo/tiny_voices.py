"""Speech models of a few kilobytes, in folders like those of sherpa-onnx's downloads: they hum.

Each token is a tone whose pitch says which token and which speaker it is, so that a test hears whether the
right thing was asked. What they read is in HAN and LATIN, and IPA for those that take phonemes. The demo of
compute nodes clones with one, and the tests use them all; they need `onnx`, which the service does not.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper, numpy_helper

from myna.engines.kokoro import halves

HAN = {"你": "n i3", "好": "h ao3", "世": "sh i4", "界": "j ie4", "三": "s an1", "点": "d ian3", "园": "n i3"}
LATIN = {"hello": "h ao3 n", "world": "sh i4", "park": "n i3"}  # one of each sentence of `sample_text`
IPA = " abcdefghijklmnopqrstuvwxyzɑæɐəɚɜɪʊɛɔʌɹɡθðŋʃʒˈˌːᵻ̩χ,.!?:;"
RATE_HZ = 16_000
CLONE_RATE_HZ = 24_000
SPEAKERS = 2
_TOKEN_S = 0.08
_LOWEST_HZ, _TOKEN_HZ, _SPEAKER_HZ = 140, 25, 2000
_LOUDNESS = 0.3  # 1 is as loud as can be
_FRAME = 600  # samples of Kokoro
_AT_ENDS = 5  # times as long as other tokens
_LOUD_ENERGY, _SILENT_ENERGY = 5, -9
_SHARE_HZ = 1000
_STYLE_TOKENS, _STYLE_SIZE = 300, 2
_FFT = 1024
_LOW_BIN, _HIGH_BIN = 20, 40
CLONE_HIGH_HZ = _HIGH_BIN * CLONE_RATE_HZ / _FFT
"""The higher tone of a cloned voice."""
_MELS = {"matcha": 80, "zipvoice": 100}
_TURN = 2 * np.pi
_INT, _FLOAT = TensorProto.INT64, TensorProto.FLOAT


class _Net:
    """An ONNX graph, put together a node at a time; a node is named by its result."""

    def __init__(self, inputs: Mapping[str, int]) -> None:
        # Without shapes: sherpa-onnx gives some scalars and some vectors of one.
        self._inputs = [helper.make_tensor_value_info(name, kind, None) for name, kind in inputs.items()]
        self._nodes: list[onnx.NodeProto] = []
        self._constants: list[onnx.TensorProto] = []

    def const(self, value: object, kind: npt.DTypeLike) -> str:
        name = f"constant{len(self._constants)}"
        self._constants.append(numpy_helper.from_array(np.asarray(value, kind), name))
        return name

    def add(self, op: str, *inputs: str, result: str = "", **attributes: Any) -> str:
        name = result or f"result{len(self._nodes)}"
        self._nodes.append(helper.make_node(op, inputs, [name], **attributes))
        return name

    def number(self, name: str) -> str:
        """The one number in a tensor of any shape, as a scalar."""
        flat = self.add("Reshape", name, self.const([1], np.int64))
        return self.add("Squeeze", flat, self.const([0], np.int64))

    def cast(self, name: str, kind: int) -> str:
        return self.add("Cast", name, to=kind)

    def hum(
        self,
        tokens: str,
        speaker: str,
        pace: str,
        shape: list[int],
        result: str,
        *,
        rate_hz: int,
        loudness: float = _LOUDNESS,
    ) -> None:
        """A tone for each of `tokens`, whole numbers, `pace` times as long as usual; `speaker` is a float."""
        ids = self.add("Reshape", tokens, self.const([-1], np.int64))
        long = self.cast(self.add("Mul", pace, self.const(rate_hz * _TOKEN_S, np.float32)), _INT)
        zero, one = self.const(0, np.int64), self.const(1, np.int64)
        samples = self.add("Mul", self.number(self.add("Shape", ids)), long)
        at = self.add("Range", zero, samples, one)
        token = self.cast(self.add("Gather", ids, self.add("Div", at, long), axis=0), _FLOAT)
        pitch = self.add("Mul", token, self.const(_TOKEN_HZ, np.float32))
        pitch = self.add("Add", pitch, self.add("Mul", speaker, self.const(_SPEAKER_HZ, np.float32)))
        pitch = self.add("Add", pitch, self.const(_LOWEST_HZ, np.float32))
        phase = self.add(
            "Mul", self.add("Mul", pitch, self.cast(at, _FLOAT)), self.const(_TURN / rate_hz, np.float32)
        )
        tone = self.add("Mul", self.add("Sin", phase), self.const(loudness, np.float32))
        self.add("Reshape", tone, self.const(shape, np.int64), result=result)

    def save(self, path: Path, outputs: Mapping[str, int], **about: object) -> None:
        results = [helper.make_tensor_value_info(name, kind, None) for name, kind in outputs.items()]
        graph = helper.make_graph(self._nodes, "tiny", self._inputs, results, self._constants)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        helper.set_model_props(model, {name: str(value) for name, value in about.items()})
        onnx.save(model, path)


def pitch_hz(token: int, speaker: int = 0) -> float:
    """The tone of a token in the voice of a speaker."""
    return _LOWEST_HZ + _TOKEN_HZ * token + _SPEAKER_HZ * speaker


def token(folder: Path, name: str) -> int:
    """The number of a token in the folder's model."""
    lines = (folder / "tokens.txt").read_text(encoding="utf-8").splitlines()
    return int(next(line.split()[1] for line in lines if line.split()[0] == name))


def vits(folder: Path, *, loudness: float = _LOUDNESS, rate_hz: int = RATE_HZ) -> Path:
    """Reads Han by a lexicon, with two speakers."""
    folder.mkdir(parents=True)
    _write_words(folder, {**HAN, **LATIN})
    net = _Net(
        {
            "x": _INT,
            "x_length": _INT,
            "noise_scale": _FLOAT,
            "length_scale": _FLOAT,
            "noise_scale_w": _FLOAT,
            "sid": _INT,
        }
    )
    speaker, pace = net.cast(net.number("sid"), _FLOAT), net.number("length_scale")
    net.hum("x", speaker, pace, [1, 1, -1], "y", rate_hz=rate_hz, loudness=loudness)
    net.save(
        folder / "model.onnx",
        {"y": _FLOAT},
        sample_rate=rate_hz,
        n_speakers=SPEAKERS,
        language="Chinese",
        comment="tiny",
        add_blank=0,
        punctuation=", 。 ！ ？ , . ! ?",
    )
    return folder


def piper(folder: Path, voice: str = "en-us") -> Path:
    """Takes phonemes, with two speakers."""
    folder.mkdir(parents=True)
    (folder / "espeak-ng-data").mkdir()
    (folder / "tokens.txt").write_text(
        "".join(f"{sign} {number}\n" for number, sign in enumerate("_^$" + IPA))
    )
    (folder / "voice.onnx.json").write_text(json.dumps({"espeak": {"voice": voice}}))
    net = _Net({"input": _INT, "input_lengths": _INT, "scales": _FLOAT, "sid": _INT})
    pace = net.number(net.add("Gather", "scales", net.const([1], np.int64), axis=0))
    net.hum("input", net.cast(net.number("sid"), _FLOAT), pace, [1, 1, 1, -1], "output", rate_hz=RATE_HZ)
    net.save(
        folder / "voice.onnx",
        {"output": _FLOAT},
        sample_rate=RATE_HZ,
        n_speakers=SPEAKERS,
        language="English",
        comment="piper",
        voice=voice,
        has_espeak=1,
        add_blank=0,
        punctuation="",
    )
    return folder


def published_piper(folder: Path) -> Path:
    """The voice of `piper` as Piper publishes its voices: the symbols and properties are in the JSON."""
    piper(folder)
    symbols = {symbol: [number] for number, symbol in enumerate("_^$" + IPA)}
    about = {
        "audio": {"sample_rate": RATE_HZ},
        "espeak": {"voice": "en-us"},
        "num_speakers": SPEAKERS,
        "phoneme_id_map": symbols,
    }
    (folder / "voice.onnx.json").write_text(json.dumps(about))
    (folder / "tokens.txt").unlink()
    (folder / "espeak-ng-data").rmdir()
    model = onnx.load(folder / "voice.onnx")
    del model.metadata_props[:]
    onnx.save(model, folder / "voice.onnx")
    return folder


def matcha(folder: Path) -> Path:
    """Reads Han by a lexicon, with one speaker, in the tones of a vocoder."""
    folder.mkdir(parents=True)
    _write_words(folder, {**HAN, **LATIN})
    net = _Net({"x": _INT, "x_length": _INT, "noise_scale": _FLOAT, "length_scale": _FLOAT})
    frames = net.cast(net.number("x_length"), _FLOAT)
    frames = net.add("Mul", net.add("Mul", frames, net.const(8, np.float32)), net.number("length_scale"))
    _fill(net, frames, [1, _MELS["matcha"], None], "mel", 1.0)
    net.save(
        folder / "model-steps-3.onnx",
        {"mel": _FLOAT},
        model_type="matcha-tts",
        language="Chinese",
        has_espeak=0,
        n_speakers=1,
        jieba=1,
        sample_rate=RATE_HZ,
        version=1,
        pad_id=0,
        use_icefall=1,
        use_eos_bos=0,
        num_ode_steps=3,
    )
    _write_vocoder(folder / "vocos-16khz-univ.onnx", _MELS["matcha"], RATE_HZ)
    return folder


def kokoro(folder: Path) -> Path:
    """Takes phonemes, with two speakers."""
    folder.mkdir(parents=True)
    (folder / "espeak-ng-data").mkdir()
    (folder / "tokens.txt").write_text("".join(f"{sign} {number}\n" for number, sign in enumerate("$" + IPA)))
    styles = np.zeros((SPEAKERS, _STYLE_TOKENS, _STYLE_SIZE), np.float32)
    styles += np.arange(SPEAKERS, dtype=np.float32)[:, None, None]
    (folder / "voices.bin").write_bytes(styles.tobytes())
    net = _Net({"tokens": _INT, "style": _FLOAT, "speed": _FLOAT})
    speaker = net.number(net.add("ReduceMax", "style", keepdims=0))
    pace = net.add("Reciprocal", net.number("speed"))
    net.hum("tokens", speaker, pace, [-1], "audio", rate_hz=CLONE_RATE_HZ)
    net.save(
        folder / "model.onnx",
        {"audio": _FLOAT},
        model_type="kokoro",
        language="multi-lang",
        has_espeak=1,
        sample_rate=CLONE_RATE_HZ,
        version=1,
        voice="en-us",
        style_dim=f"{_STYLE_TOKENS},1,{_STYLE_SIZE}",
        n_speakers=SPEAKERS,
        speaker_names="one,two",
    )
    return folder


def neural(folder: Path, voices: Sequence[str]) -> Path:
    """A Kokoro model as the embedded engine loads it. The pitch also says the number of the voice: it is the
    mean of its style. Only the first half of a style, which is the sound of the voice, differs from 0. The
    tokens at both ends are silent. The values in the middle have the names that they have in Kokoro."""
    (folder / "voices").mkdir(parents=True)
    for number, voice in enumerate(voices):
        style = np.zeros((510, 1, 256), "<f4")
        style[:, :, :128] = 2 * number
        style.tofile(folder / "voices" / f"{voice}.bin")
    net = _Net({"tokens": _INT, "style": _FLOAT, "speed": _FLOAT})
    _kokoro_encoder(net)
    _kokoro_decoder(net)
    net.save(folder / "model.onnx", {"audio": _FLOAT})
    return folder


def _kokoro_encoder(net: _Net) -> None:
    """The token of each frame, and its energy, which is low at the ends, where each token is longer."""
    column, row, no_axis = net.const([-1, 1], np.int64), net.const([1, -1], np.int64), net.const(0, np.int64)
    ids, speed = (net.add("Reshape", name, net.const([-1], np.int64)) for name in ("tokens", "speed"))
    sounds = net.add("Greater", ids, net.const(0, np.int64))
    long = net.const(_TOKEN_S * CLONE_RATE_HZ / _FRAME, np.float32)
    longer = net.add("Mul", long, net.const(_AT_ENDS, np.float32))
    frames = net.add("Div", net.add("Where", sounds, long, longer), speed)  # of all, or of each
    ends = net.add("Floor", net.add("CumSum", frames, no_axis))
    begins = net.add("Floor", net.add("CumSum", frames, no_axis, exclusive=1))
    net.add("Reshape", net.add("Sub", ends, begins), row, result=halves.LENGTHS)
    count = net.add("ReduceMax", ends, keepdims=0)
    place = net.add("Range", net.const(0, np.float32), count, net.const(1, np.float32))
    before = net.cast(net.add("LessOrEqual", ends, net.add("Reshape", place, column)), _INT)
    index = net.add("ReduceSum", before, net.const([1], np.int64), keepdims=0)
    token = net.cast(net.add("Gather", ids, index), _FLOAT)
    net.add("Reshape", token, net.const([1, 1, -1], np.int64), result=halves.FRAMES)
    loud, silent = net.const(_LOUD_ENERGY, np.float32), net.const(_SILENT_ENERGY, np.float32)
    energy = net.add("Reshape", net.add("Where", net.add("Gather", sounds, index), loud, silent), column)
    net.add("Reshape", net.add("Concat", energy, energy, axis=1), row, result=halves.ENERGY)
    net.add("Identity", halves.ENERGY, result=halves.PITCH)


def _kokoro_decoder(net: _Net) -> None:
    """A tone for each frame that is not silent. All are the higher, the more of the frames are silent."""
    speaker = net.add("ReduceSum", net.add("Div", "style", net.const(256, np.float32)), keepdims=0)
    silent = net.add("Equal", halves.FRAMES, net.const(0, np.float32))
    share = net.number(net.add("ReduceMean", net.cast(silent, _FLOAT), axes=[2]))
    tokens, silent = (net.add("Reshape", of, net.const([-1], np.int64)) for of in (halves.FRAMES, silent))
    pitch = net.add("Mul", tokens, net.const(_TOKEN_HZ, np.float32))
    pitch = net.add("Add", pitch, net.const(_LOWEST_HZ, np.float32))
    for factor, hz in ((speaker, _SPEAKER_HZ), (share, _SHARE_HZ)):
        pitch = net.add("Add", pitch, net.add("Mul", factor, net.const(hz, np.float32)))
    size = net.const(_FRAME, np.int64)
    samples = net.add("Mul", net.number(net.add("Shape", tokens)), size)
    at = net.add("Range", net.const(0, np.int64), samples, net.const(1, np.int64))
    frame = net.add("Div", at, size)
    turns = net.add("Mul", net.add("Gather", pitch, frame), net.cast(at, _FLOAT))
    tone = net.add("Sin", net.add("Mul", turns, net.const(_TURN / CLONE_RATE_HZ, np.float32)))
    tone = net.add("Mul", tone, net.const(_LOUDNESS, np.float32))
    net.add("Where", net.add("Gather", silent, frame), net.const(0, np.float32), tone, result="audio")


def zipvoice(folder: Path, *, characters: str = "", effort: int = 0) -> Path:
    """Clones: the louder its reference, the less of its sound is its higher tone; eight frames a token.

    It also reads these Han `characters`, each as the same two tokens. In each of its steps it multiplies two
    square matrices of `effort` rows, so that its progress is visible.
    """
    folder.mkdir(parents=True)
    _write_words(folder, {**dict.fromkeys(filter(str.isalpha, characters), HAN["好"]), **HAN, **LATIN})
    encoder = _Net({"tokens": _INT, "prompt_tokens": _INT, "prompt_features_len": _INT, "speed": _FLOAT})
    count = encoder.number(
        encoder.add("Gather", encoder.add("Shape", "tokens"), encoder.const([1], np.int64))
    )
    frames = encoder.add("Mul", encoder.cast(count, _FLOAT), encoder.const(8, np.float32))
    frames = encoder.add("Div", frames, encoder.number("speed"))
    prompt = encoder.cast(encoder.number("prompt_features_len"), _FLOAT)
    _fill(encoder, encoder.add("Add", frames, prompt), [1, None, _MELS["zipvoice"]], "text_condition", 0.0)
    about = {"version": 1, "model_type": "zipvoice"}
    encoder.save(
        folder / "encoder.int8.onnx",
        {"text_condition": _FLOAT},
        use_espeak=0,
        use_pinyin=1,
        comment="zipvoice",
        **about,
    )
    kinds = dict.fromkeys(("t", "x", "text_condition", "speech_condition", "guidance_scale"), _FLOAT)
    decoder = _Net(kinds)
    # The way from noise x to the loudest frame of the reference, in what is left of the time t.
    goal = decoder.add("ReduceMax", "speech_condition", axes=[1], keepdims=1)
    left = decoder.add("Sub", decoder.const(1, np.float32), decoder.number("t"))
    speed = decoder.add("Div", decoder.add("Sub", goal, "x"), left)
    unused = decoder.add("ReduceSum", "text_condition", keepdims=0)
    unused = decoder.add("Mul", unused, decoder.add("ReduceSum", "guidance_scale", keepdims=0))
    unused = decoder.add("Add", unused, _toil(decoder, decoder.number("t"), effort))
    decoder.add("Add", speed, decoder.add("Mul", unused, decoder.const(0, np.float32)), result="v")
    decoder.save(
        folder / "decoder.int8.onnx",
        {"v": _FLOAT},
        feat_dim=_MELS["zipvoice"],
        sample_rate=CLONE_RATE_HZ,
        n_fft=_FFT,
        hop_length=256,
        window_length=_FFT,
        num_mels=_MELS["zipvoice"],
        **about,
    )
    _write_vocoder(folder / "vocos_24khz.onnx", _MELS["zipvoice"], CLONE_RATE_HZ)
    return folder


def _write_words(folder: Path, words: Mapping[str, str]) -> None:
    """tokens.txt and lexicon.txt."""
    sounds = dict.fromkeys(sound for said in words.values() for sound in said.split())
    tokens = ["_", "sil", "eos", "sp", "#0", *sounds, ",", ".", "!", "?", "。", "，", "！", "？"]
    (folder / "tokens.txt").write_text("".join(f"{token} {number}\n" for number, token in enumerate(tokens)))
    (folder / "lexicon.txt").write_text("".join(f"{word} {said}\n" for word, said in words.items()))


def _fill(net: _Net, frames: str, shape: list[int | None], result: str, value: float) -> None:
    """A tensor of `value` with `frames` where the shape has None."""
    long = net.add("Reshape", net.cast(frames, _INT), net.const([1], np.int64))
    sizes = [long if size is None else net.const([size], np.int64) for size in shape]
    filling = helper.make_tensor("value", _FLOAT, [1], [value])
    net.add("ConstantOfShape", net.add("Concat", *sizes, axis=0), result=result, value=filling)


def _toil(net: _Net, number: str, effort: int) -> str:
    """An unused number that takes `effort` cubed multiplications. It depends on `number`, since the runtime
    evaluates constants once, when it loads the model."""
    size = net.const([effort, effort], np.int64)
    matrix = net.add("Expand", number, size)
    return net.add("ReduceSum", net.add("MatMul", matrix, matrix), keepdims=0)


def _write_vocoder(path: Path, mels: int, rate_hz: int) -> None:
    """Two tones: the more there is in the mel spectrum, the more of the lower one."""
    net = _Net({"mels": _FLOAT})
    low, high = np.zeros((2, 1, _FFT // 2 + 1, 1), np.float32)
    low[0, _LOW_BIN] = high[0, _HIGH_BIN] = 60
    share = net.add("Sigmoid", net.add("ReduceMean", "mels", axes=[1], keepdims=1))
    share = net.add("Mul", share, net.const(low - high, np.float32))
    net.add("Add", share, net.const(high, np.float32), result="mag")
    net.add("Mul", "mag", net.const(0, np.float32), result="y")
    net.add("Add", "y", net.const(1, np.float32), result="x")
    net.save(
        path,
        {"mag": _FLOAT, "x": _FLOAT, "y": _FLOAT},
        model_type="vocos",
        n_fft=_FFT,
        hop_length=256,
        win_length=_FFT,
        center=1,
        normalized=0,
        window_type="hann",
        pad_mode="reflect",
        sample_rate=rate_hz,
    )

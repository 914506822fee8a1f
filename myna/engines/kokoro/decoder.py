"""The decoder of the model, in less time. It normalizes its channels by their means over time: here these are
weighted means, so that frames that are not decoded count too. Everything else makes the same values, but for
rounding, in fewer passes over them, or by operators that onnxruntime computes in several threads. Decision
0016 has the figures.
"""

import math
import re
import struct
from collections.abc import Iterator
from typing import Final

from myna.engines.kokoro.onnx_file import FLOAT, INT64, Model, Node, ints_attribute, new_node, weight

SHARES: Final = {1: "shares.1", 2: "shares.2", 20: "shares.20", 120: "shares.120"}
"""The decoder's inputs for the share of each value in the means, by the values of a channel for a frame:
[values, 1]. Where there are 120, one value more follows the last frame."""
_VALUES: Final = (
    (20, re.compile(rb"/generator/(noise_res\.0|resblocks\.[0-2])/")),
    (120, re.compile(rb"/generator/")),
    (2, re.compile(rb"/decode\.3/norm2/")),
    (1, re.compile(rb"")),
)
"""Of how many values for a frame a node takes the mean: the first whose pattern its name has."""
_NORMALIZED: Final = re.compile(rb"/generator/.*/convs1\.")
"""Convolutions whose sums are normalized, which removes a bias."""
_TWO: Final = struct.pack("<f", 2.0)
_WAVES, _WAVES_SHAPE = b"waves", b"waves.shape"
_SAMPLES: Final = 20
"""The window of the spectrum of the tones that the decoder starts from."""
_TINY: Final = 1e-20


def decoder(model: Model, nodes: list[Node]) -> list[Node]:
    """The nodes of the decoder among these nodes of the model, changed."""
    return list(_Decoder(model, nodes).changed())


def added() -> dict[bytes, bytes]:
    """The weights that changed nodes take besides those of the model."""
    half = _SAMPLES // 2
    waves: list[float] = []
    for frequency in range(half + 1):
        angles = [2 * math.pi * frequency * at / _SAMPLES for at in range(_SAMPLES)]
        real = [math.cos(angle) for angle in angles]
        # By the STFT's rounding a negative real result nearly always has the phase pi at 0 Hz, -pi at 12 kHz.
        rest = _TINY if frequency else -_TINY
        waves += real
        waves += [-math.sin(angle) for angle in angles] if frequency % half else [rest * one for one in real]
    hann = [0.5 - 0.5 * math.cos(2 * math.pi * at / _SAMPLES) for at in range(_SAMPLES)]
    floats = struct.pack(f"<{len(waves)}f", *(wave * hann[at % _SAMPLES] for at, wave in enumerate(waves)))
    return {
        _WAVES: weight(_WAVES, FLOAT, [2 * (half + 1), 1, _SAMPLES], floats),
        _WAVES_SHAPE: weight(_WAVES_SHAPE, INT64, [4], struct.pack("<4q", 1, half + 1, 2, -1)),
    }


class _Decoder:
    """`made` has the node that makes a value."""

    def __init__(self, model: Model, nodes: list[Node]) -> None:
        self._model = model
        self._nodes = nodes
        self._made = {name: node for node in nodes for name in node.makes}

    def changed(self) -> Iterator[Node]:
        changes = {
            b"ReduceMean": (self._weighted,),
            b"Pow": (self._squared,),
            b"Mul": (self._dequantized, self._normalized, self._angle),
            b"Add": (self._activation,),
            b"Transpose": (self._spectrum,),
        }
        for node in self._nodes:
            yield from next(filter(None, (change(node) for change in changes.get(node.operator, ()))), [node])

    def _weighted(self, node: Node) -> list[Node]:
        """A mean as a product with the shares."""
        values = next(values for values, pattern in _VALUES if pattern.search(node.name))
        return [new_node(b"MatMul", [node.takes[0], SHARES[values].encode()], node.makes[0])]

    def _squared(self, node: Node) -> list[Node]:
        two = self._model.ends(node.takes[1], _TWO)
        return [new_node(b"Mul", [node.takes[0]] * 2, node.makes[0])] if two else []

    def _dequantized(self, node: Node) -> list[Node]:
        """Sums of integers and their scale. Sums that are normalized after it need no bias."""
        cast = self._one(node, b"Cast")
        if cast is None or node.takes[0] not in cast.makes:
            return []
        biased = self._one(cast, b"Add")
        sums = self._one(biased or cast, b"ConvInteger")
        if sums is None:
            return []
        taken = sums.makes[0] if _NORMALIZED.search(node.name) else cast.takes[0]
        return [new_node(b"DequantizeLinear", [taken, node.takes[1]], node.makes[0])]

    def _normalized(self, node: Node) -> list[Node]:
        """The scale of a normalized channel is divided by its deviation, in place of the channel's values."""
        quotient = self._quotient(node)
        return _scaled(_other(node, quotient), quotient, node.makes[0]) if quotient else []

    def _angle(self, node: Node) -> list[Node]:
        """The activation of a normalized channel x is x + sin(ax)^2 / a. Here the channel's scale and shift
        make ax at once."""
        shifted = self._one(node, b"Add")
        product = shifted and self._one(shifted, b"Mul")
        quotient = product and self._quotient(product)
        if not shifted or not product or not quotient:
            return []
        factor, makes = _other(node, shifted), node.makes[0]
        scale, scaled, shift = (makes + end for end in (b".scale", b".scaled", b".shift"))
        return [
            new_node(b"Mul", [factor, _other(product, quotient)], scale),
            *_scaled(scale, quotient, scaled),
            new_node(b"Mul", [factor, _other(shifted, product)], shift),
            new_node(b"Add", [scaled, shift], makes),
        ]

    def _activation(self, node: Node) -> list[Node]:
        """It becomes (ax + sin(ax)^2) / a."""
        product = self._one(node, b"Mul")
        square = product and self._one(product, b"Pow")
        sine = square and self._one(square, b"Sin")
        angle = sine and self._one(sine, b"Mul")
        if not product or not square or not angle or not self._angle(angle):
            return []
        share, total = _other(product, square), node.makes[0] + b".total"
        if b"/Reciprocal" not in share or _other(node, product) not in angle.takes:
            return []
        return [
            new_node(b"Add", [angle.makes[0], square.makes[0]], total),
            new_node(b"Mul", [total, share], node.makes[0]),
        ]

    def _spectrum(self, node: Node) -> list[Node]:
        """A spectrum, [1, frequencies, times, 2], as a convolution with cosines and sines."""
        stft = self._one(node, b"STFT")
        reshaped = stft and self._one(stft, b"Reshape")
        if not reshaped:
            return []
        waves, parts = (node.makes[0] + end for end in (b".waves", b".parts"))
        return [
            new_node(b"Conv", [reshaped.takes[0], _WAVES], waves, ints_attribute(b"strides", _SAMPLES // 4)),
            new_node(b"Reshape", [waves, _WAVES_SHAPE], parts),
            new_node(b"Transpose", [parts], node.makes[0], ints_attribute(b"perm", 0, 1, 3, 2)),
        ]

    def _quotient(self, node: Node) -> Node | None:
        """The quotient of values and their deviation that the node takes."""
        quotient = self._one(node, b"Div")
        return quotient if quotient and self._one(quotient, b"Sqrt") else None

    def _one(self, node: Node, operator: bytes) -> Node | None:
        """The first node with this operator whose value the node takes."""
        found = (self._made[name] for name in node.takes if name in self._made)
        return next((one for one in found if one.operator == operator), None)


def _other(node: Node, first: Node) -> bytes:
    """The other input of a node with two, one of which the first node makes."""
    return node.takes[node.takes[0] in first.makes]


def _scaled(scale: bytes, quotient: Node, makes: bytes) -> list[Node]:
    """The values of a quotient, with a scale, which is divided in their place."""
    values, deviation = quotient.takes
    share = makes + b".share"
    return [new_node(b"Div", [scale, deviation], share), new_node(b"Mul", [values, share], makes)]

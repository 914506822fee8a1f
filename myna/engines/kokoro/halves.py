"""The model in two halves, made of its file: the encoder computes what sounds in each frame of 25 ms, the
decoder the samples of the frames. Decision 0016 says why.

Both multiply bytes without signs. Where the processor has an instruction for products of bytes with and
without one (VNNI), those of the sound get signs, and the sums are the same in less time.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

from myna.engines.kokoro import decoder
from myna.engines.kokoro.onnx_file import (
    INT8,
    UINT8,
    Bytes,
    Model,
    Node,
    floats_input,
    int_attribute,
    needed,
    new_node,
    weight,
)

FRAMES: Final = "/encoder/MatMul_1_output_0"
PITCH: Final = "/encoder/Reshape_output_0"
ENERGY: Final = "/encoder/Reshape_1_output_0"
"""What is decoded: [1, 512, frames], and twice [1, 2 * frames]."""
LENGTHS: Final = "/encoder/Clip_output_0"
"""How many frames each symbol has: [1, symbols]."""
_SPEED: Final = b"speed"
_SIGN: Final = b"sign"
"""The bit that makes 128 less of a byte."""


class Halves(NamedTuple):
    """The files, each in parts that follow each other. The encoder results in FRAMES, PITCH, ENERGY and
    LENGTHS; the decoder takes the first three, the style, and what it uses of SHARES."""

    encoder: list[Bytes]
    decoder: list[Bytes]


def halves(file: memoryview, *, signed: bool) -> Halves | None:
    """The halves of a model's file, `signed` for processors with VNNI; None if its values have other names,
    or if it normalizes in another way. Raises ValueError or IndexError if the file is damaged."""
    model = Model(file)
    decoded = [name.encode() for name in (FRAMES, PITCH, ENERGY)]
    encoded = [*decoded, LENGTHS.encode()]
    made = {name for node in model.nodes for name in node.makes}
    if not made.issuperset(encoded) or any(node.operator == b"InstanceNormalization" for node in model.nodes):
        return None
    nodes = list(_signed(model.nodes)) if signed else model.nodes
    added = decoder.added() | {
        _SIGN: weight(_SIGN, UINT8, [], b"\x80"),
        _SPEED: floats_input(_SPEED),  # one for each symbol, where the file declares one for all
    }
    decoding = needed(decoder.decoder(model, nodes), model.results, frozenset(decoded))
    return Halves(
        model.part(needed(nodes, encoded, frozenset()), encoded, added),
        model.part(decoding, model.results, added),
    )


def _signed(nodes: list[Node]) -> Iterator[Node]:
    """With convolutions of bytes with signs: they, and the one that stands for zero, are 128 less."""
    made = {name: node for node in nodes for name in node.makes}
    for node in nodes:
        maker = made.get(node.takes[0]) if node.operator == b"ConvInteger" and len(node.takes) > 2 else None
        if maker is None or maker.operator != b"DynamicQuantizeLinear":
            yield node
            continue
        quantized, weights, zero, *rest = node.takes
        flipped, signed_zero, shape, shaped, signed = (
            node.makes[0] + end for end in (b".flipped", b".zero", b".shape", b".shaped", b".signed")
        )
        sound, scale = maker.takes[0], maker.makes[1]
        yield new_node(b"BitwiseXor", [zero, _SIGN], flipped)
        yield new_node(b"Cast", [flipped], signed_zero, int_attribute(b"to", INT8))
        # onnxruntime keeps values that no node takes until the end of the run: the other bytes are taken.
        yield new_node(b"Shape", [quantized], shape)
        yield new_node(b"Reshape", [sound, shape], shaped)
        yield new_node(b"QuantizeLinear", [shaped, scale, signed_zero], signed)
        yield node.taking([signed, weights, signed_zero, *rest])

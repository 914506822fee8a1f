"""The model in two halves, made of its file: the encoder computes what sounds in each frame of 25 ms, the
decoder the samples of the frames. Decision 0016 says why.

The file is ONNX, a message of Protocol Buffers (onnx.proto): a half is a copy of it without the other's nodes
and weights. The decoder normalizes its channels by their means over time. In its half these are weighted
means, so that frames that are not decoded count too.

Its convolutions multiply bytes without signs. Where the processor has an instruction for products of bytes
with and without one (VNNI), those of the sound get signs, and the sums are the same in less time.
"""

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

FRAMES: Final = "/encoder/MatMul_1_output_0"
PITCH: Final = "/encoder/Reshape_output_0"
ENERGY: Final = "/encoder/Reshape_1_output_0"
"""What is decoded: [1, 512, frames], and twice [1, 2 * frames]."""
LENGTHS: Final = "/encoder/Clip_output_0"
"""How many frames each symbol has: [1, symbols]."""
SHARES: Final = {1: "shares.1", 2: "shares.2", 20: "shares.20", 120: "shares.120"}
"""The decoder's inputs for the share of each value in the means, by the values of a channel for a frame:
[values, 1]. Where there are 120, one value more follows the last frame."""

_GRAPH: Final = 7
_NODE, _GRAPH_NAME, _INITIALIZER, _INPUT, _OUTPUT = 1, 2, 5, 11, 12  # of a graph
_TAKES, _MAKES, _NODE_NAME, _OPERATOR = 1, 2, 3, 4  # of a node
_TO_INT8: Final = b"\x2a\x09\x0a\x02to\x18\x03\xa0\x01\x02"
"""The attribute of a `Cast`."""
_SIGN: Final = b"sign"
_SIGN_BIT: Final = b"\x10\x02\x42\x04" + _SIGN + b"\x4a\x01\x80"
"""The tensor of that name: the byte 128."""
_NAME: Final = {_INITIALIZER: 8, _INPUT: 1, _OUTPUT: 1}
"""The field of a graph's field that has its name."""
_FLOATS: Final = b"\x12\x04\x0a\x02\x08\x01"
"""The type of an input: a tensor of floats of any shape."""
_VALUES: Final = (
    (20, re.compile(rb"/generator/(noise_res\.0|resblocks\.[0-2])/")),
    (120, re.compile(rb"/generator/")),
    (2, re.compile(rb"/decode\.3/norm2/")),
    (1, re.compile(rb"")),
)
"""Of how many values for a frame a node takes the mean: the first whose pattern its name has."""
_FIXED: Final = {1: 8, 5: 4}
"""The sizes of fields with these wire types."""

_SHIFT_MAX: Final = 63
"""A number has at most 64 bits."""

Bytes = bytes | memoryview


class Halves(NamedTuple):
    """The files, each in parts that follow each other. The encoder results in FRAMES, PITCH, ENERGY and
    LENGTHS; the decoder takes the first three, the style, and what it uses of SHARES."""

    encoder: list[Bytes]
    decoder: list[Bytes]


class _Field(NamedTuple):
    """A field of a message: its content, and all of its bytes."""

    number: int
    content: memoryview
    whole: memoryview


class _Node(NamedTuple):
    takes: list[bytes]
    makes: list[bytes]
    name: bytes
    operator: bytes
    content: Bytes


def halves(model: memoryview, *, signed: bool) -> Halves | None:
    """The halves of a model's file, `signed` for processors with VNNI; None if its values have other names,
    or if it normalizes in another way. Raises ValueError or IndexError if the file is damaged."""
    about = [field for field in _fields(model) if field.number != _GRAPH]
    graph = [field for part in _fields(model) if part.number == _GRAPH for field in _fields(part.content)]
    nodes = [_node(field) for field in graph if field.number == _NODE]
    decoded = [name.encode() for name in (FRAMES, PITCH, ENERGY)]
    encoded = [*decoded, LENGTHS.encode()]
    made = {name for node in nodes for name in node.makes}
    if not made.issuperset(encoded) or any(node.operator == b"InstanceNormalization" for node in nodes):
        return None
    audio = [_name(field) for field in graph if field.number == _OUTPUT]
    decoder = [_weighted(node) for node in _needed(nodes, audio, frozenset(decoded))]
    if signed:
        decoder = [each for node in decoder for each in _signed(node)]
    return Halves(
        _file(about, graph, _needed(nodes, encoded, frozenset()), encoded),
        _file(about, graph, decoder, audio),
    )


def _needed(nodes: list[_Node], results: list[bytes], given: frozenset[bytes]) -> list[_Node]:
    """The nodes that the results need where the values `given` are inputs. A file has each node after those
    whose values it takes."""
    wanted = set(results)
    found = []
    for node in reversed(nodes):
        if not wanted.isdisjoint(node.makes):
            found.append(node)
            wanted.update(set(node.takes) - given)
    return found[::-1]


def _weighted(node: _Node) -> _Node:
    """A mean over time becomes the product with the shares."""
    if node.operator != b"ReduceMean":
        return node
    values = next(values for values, pattern in _VALUES if pattern.search(node.name))
    return _new_node(b"MatMul", [node.takes[0], SHARES[values].encode()], node.makes[0])


def _signed(node: _Node) -> list[_Node]:
    """A convolution whose bytes, and the one that stands for zero, are 128 less."""
    if node.operator != b"ConvInteger" or len(node.takes) < 3:
        return [node]
    takes = list(node.takes)
    nodes = []
    for place in (0, 2):
        flipped, signed = (node.makes[0] + end % place for end in (b".flipped%d", b".signed%d"))
        nodes.append(_new_node(b"BitwiseXor", [takes[place], _SIGN], flipped))
        nodes.append(_new_node(b"Cast", [flipped], signed, _TO_INT8))
        takes[place] = signed
    others = [bytes(part.whole) for part in _fields(memoryview(node.content)) if part.number != _TAKES]
    content = b"".join([*(_encoded(_TAKES, name) for name in takes), *others])
    return [*nodes, node._replace(takes=takes, content=content)]


def _new_node(operator: bytes, takes: list[bytes], makes: bytes, attributes: bytes = b"") -> _Node:
    fields = [*((_TAKES, name) for name in takes), (_MAKES, makes), (_OPERATOR, operator)]
    content = b"".join(_encoded(number, text) for number, text in fields) + attributes
    return _Node(takes, [makes], b"", operator, content)


def _file(about: list[_Field], graph: list[_Field], nodes: list[_Node], results: list[bytes]) -> list[Bytes]:
    """A model of these nodes and of the weights and inputs that they take. Other values that they take become
    inputs of floats."""
    taken = {name for node in nodes for name in node.takes if name}
    taken -= {name for node in nodes for name in node.makes}
    parts: list[Bytes] = [_encoded(_GRAPH_NAME, b"half")]
    for node in nodes:
        parts += [_head(_NODE, len(node.content)), node.content]
    if _SIGN in taken:
        taken.remove(_SIGN)
        parts.append(_encoded(_INITIALIZER, _SIGN_BIT))
    for field in graph:
        if field.number in (_INITIALIZER, _INPUT) and (name := _name(field)) in taken:
            taken.remove(name)
            parts.append(field.whole)
    parts += [_encoded(_INPUT, _encoded(_NAME[_INPUT], name) + _FLOATS) for name in sorted(taken)]
    parts += [_encoded(_OUTPUT, _encoded(_NAME[_OUTPUT], name)) for name in results]
    return [*(field.whole for field in about), _head(_GRAPH, sum(map(len, parts))), *parts]


def _node(field: _Field) -> _Node:
    texts: dict[int, list[bytes]] = {_TAKES: [], _MAKES: [], _NODE_NAME: [b""], _OPERATOR: [b""]}
    for part in _fields(field.content):
        if part.number in texts:
            texts[part.number].append(bytes(part.content))
    return _Node(texts[_TAKES], texts[_MAKES], texts[_NODE_NAME][-1], texts[_OPERATOR][-1], field.content)


def _name(field: _Field) -> bytes:
    number = _NAME[field.number]
    return next((bytes(part.content) for part in _fields(field.content) if part.number == number), b"")


def _fields(message: memoryview) -> Iterator[_Field]:
    end = 0
    while (begin := end) < len(message):
        key, at = _number(message, begin)
        number, kind = key >> 3, key & 7
        if kind == 0:
            _, end = _number(message, at)
        elif kind == 2:
            size, at = _number(message, at)
            end = at + size
        else:
            end = at + _FIXED.get(kind, len(message))
        if not number or end > len(message):
            raise ValueError("No message of Protocol Buffers.")
        yield _Field(number, message[at:end], message[begin:end])


def _number(message: memoryview, at: int) -> tuple[int, int]:
    """The number of variable length at this place, and where it ends."""
    number = shift = 0
    while (byte := message[at]) & 0x80:
        if shift > _SHIFT_MAX:
            raise ValueError("No number of Protocol Buffers.")
        number |= (byte & 0x7F) << shift
        shift += 7
        at += 1
    return number | byte << shift, at + 1


def _encoded(number: int, content: bytes) -> bytes:
    return _head(number, len(content)) + content


def _head(number: int, size: int) -> bytes:
    """The key and the size of a field."""
    head = bytearray((number << 3 | 2,))
    while size > 0x7F:
        head.append(size & 0x7F | 0x80)
        size >>= 7
    head.append(size)
    return bytes(head)

"""The file of a model, as far as it is taken apart and put together: ONNX, a message of Protocol Buffers
(onnx.proto)."""

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

_GRAPH: Final = 7
_NODE, _GRAPH_NAME, _WEIGHT, _INPUT, _OUTPUT = 1, 2, 5, 11, 12  # of a graph
_TAKES, _MAKES, _NODE_NAME, _OPERATOR, _ATTRIBUTE = 1, 2, 3, 4, 5  # of a node
_ATTRIBUTE_NAME, _INT, _INTS = 1, 3, 8  # of an attribute
_IS_INT, _IS_INTS = b"\xa0\x01\x02", b"\xa0\x01\x07"
_SIZE, _KIND, _CONTENT = 1, 2, 9  # of a tensor
_NAME: Final = {_WEIGHT: 8, _INPUT: 1, _OUTPUT: 1}
"""The field of a graph's field that has its name."""
_FLOATS: Final = b"\x12\x04\x0a\x02\x08\x01"
"""The type of an input: a tensor of floats of any shape."""
_FIXED: Final = {1: 8, 5: 4}
"""The sizes of fields with these wire types."""
_SHIFT_MAX: Final = 63
"""A number has at most 64 bits."""
FLOAT, UINT8, INT8, INT64 = 1, 2, 3, 7
"""Kinds of values."""

Bytes = bytes | memoryview


class _Field(NamedTuple):
    """A field of a message: its content, and all of its bytes."""

    number: int
    content: memoryview
    whole: memoryview


class Node(NamedTuple):
    """A node: the names of the values that it takes and makes, its own, and its bytes."""

    takes: list[bytes]
    makes: list[bytes]
    name: bytes
    operator: bytes
    content: Bytes

    def taking(self, takes: list[bytes]) -> "Node":
        """The node, which takes these values instead."""
        others = [bytes(part.whole) for part in _fields(memoryview(self.content)) if part.number != _TAKES]
        content = b"".join([*(_encoded(_TAKES, name) for name in takes), *others])
        return self._replace(takes=takes, content=content)


def new_node(operator: bytes, takes: list[bytes], makes: bytes, attribute: bytes = b"") -> Node:
    """A node without a name."""
    fields = [*((_TAKES, name) for name in takes), (_MAKES, makes), (_OPERATOR, operator)]
    content = b"".join(_encoded(number, text) for number, text in fields) + attribute
    return Node(takes, [makes], b"", operator, content)


def int_attribute(name: bytes, value: int) -> bytes:
    """An attribute of a node: a number below 128."""
    return _encoded(_ATTRIBUTE, _encoded(_ATTRIBUTE_NAME, name) + bytes((_INT << 3, value)) + _IS_INT)


def ints_attribute(name: bytes, *values: int) -> bytes:
    """An attribute of a node: numbers below 128."""
    numbers = b"".join(bytes((_INTS << 3, value)) for value in values)
    return _encoded(_ATTRIBUTE, _encoded(_ATTRIBUTE_NAME, name) + numbers + _IS_INTS)


def weight(name: bytes, kind: int, sizes: list[int], content: bytes) -> bytes:
    """A tensor with sizes below 128, of little-endian values."""
    head = b"".join(bytes((_SIZE << 3, size)) for size in sizes) + bytes((_KIND << 3, kind))
    return _encoded(_WEIGHT, head + _encoded(_NAME[_WEIGHT], name) + _encoded(_CONTENT, content))


def floats_input(name: bytes) -> bytes:
    """An input: a tensor of floats of any shape."""
    return _encoded(_INPUT, _encoded(_NAME[_INPUT], name) + _FLOATS)


class Model:
    """A model that is read. Raises ValueError or IndexError if the file is damaged."""

    def __init__(self, file: memoryview) -> None:
        fields = list(_fields(file))
        self._about = [field.whole for field in fields if field.number != _GRAPH]
        graph = [field for part in fields if part.number == _GRAPH for field in _fields(part.content)]
        self._given = {_name(field): field for field in graph if field.number in (_WEIGHT, _INPUT)}
        self.nodes = [_node(field) for field in graph if field.number == _NODE]
        self.results = [_name(field) for field in graph if field.number == _OUTPUT]

    def ends(self, name: bytes, content: bytes) -> bool:
        """Whether it has a weight of this name whose last values are these."""
        field = self._given.get(name)
        return field is not None and field.content[-len(content) :] == content

    def part(self, nodes: list[Node], results: list[bytes], added: Mapping[bytes, bytes]) -> list[Bytes]:
        """The file of another model, in parts that follow each other: of these nodes and of the weights and
        inputs that they take, those `added` first. Other values that they take become inputs of floats."""
        taken = {name for node in nodes for name in node.takes if name}
        taken -= {name for node in nodes for name in node.makes}
        parts: list[Bytes] = [_encoded(_GRAPH_NAME, b"part")]
        for node in nodes:
            parts += [_head(_NODE, len(node.content)), node.content]
        for name in sorted(taken):
            if name in added:
                parts.append(added[name])
            elif name in self._given:
                parts.append(self._given[name].whole)
            else:
                parts.append(floats_input(name))
        parts += [_encoded(_OUTPUT, _encoded(_NAME[_OUTPUT], name)) for name in results]
        return [*self._about, _head(_GRAPH, sum(map(len, parts))), *parts]


def needed(nodes: list[Node], results: list[bytes], given: frozenset[bytes]) -> list[Node]:
    """The nodes that the results need where the values `given` are inputs. A file has each node after those
    whose values it takes."""
    wanted = set(results)
    found = []
    for node in reversed(nodes):
        if not wanted.isdisjoint(node.makes):
            found.append(node)
            wanted.update(set(node.takes) - given)
    return found[::-1]


def _node(field: _Field) -> Node:
    texts: dict[int, list[bytes]] = {_TAKES: [], _MAKES: [], _NODE_NAME: [b""], _OPERATOR: [b""]}
    for part in _fields(field.content):
        if part.number in texts:
            texts[part.number].append(bytes(part.content))
    return Node(texts[_TAKES], texts[_MAKES], texts[_NODE_NAME][-1], texts[_OPERATOR][-1], field.content)


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

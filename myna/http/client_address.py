"""The address of a client behind proxies that the operator trusts.

A proxy appends the address of its client to `Forwarded` (RFC 7239) or `X-Forwarded-For`, so the headers are
read from the right: all that precedes the first address that is no trusted proxy was written by an untrusted
client.
"""

import re
from collections.abc import Callable, Iterable
from functools import lru_cache

from myna.lib.net import Network, networks, parsed

FORWARDED = b"forwarded"
X_FORWARDED_FOR = b"x-forwarded-for"
CACHED_MAX = 4096
"""Addresses whose text a process has parsed lately."""
HOPS_MAX = 16
"""Trusted proxies in a row. What precedes them is not read."""

_TOKEN = rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
_PAIR = re.compile(rb'[ \t]*(%b)=(?:(%b)|"((?:[^"\\]|\\.)*)")[ \t]*' % (_TOKEN, _TOKEN))
_PORT = rb"(?::(?:[0-9]{1,5}|_[0-9A-Za-z._-]+))?"
_NODE = re.compile(rb"(?:\[([0-9A-Fa-f:.]{2,45})\]|([0-9.]{7,15}))" + _PORT)
_BARE_IPV6 = re.compile(rb"[0-9A-Fa-f]{0,4}:[0-9A-Fa-f]{0,4}:[0-9A-Fa-f:.]{0,35}")

UNCLEAR = "unclear"
"""In place of an address: two headers of a trusted proxy contradict each other. It must not be the proxy's
own address, which may be a loopback address, whose failures are not counted."""


class TrustedProxies:
    """Finds the client's address by the headers of trusted proxies."""

    def __init__(self, trusted: Iterable[Network]) -> None:
        self._networks = tuple(trusted)
        self._hop = lru_cache(CACHED_MAX)(self._read_hop)

    @classmethod
    def of(cls, setting: str) -> "TrustedProxies | None":
        """The proxies of MYNA_TRUSTED_PROXIES; None if it is empty."""
        return cls(found) if (found := networks(setting)) else None

    def trusts(self, peer: str) -> bool:
        """Whether this is the address of a trusted proxy."""
        return self._hop(peer)[1]

    def client_address(self, peer: str, headers: Iterable[tuple[bytes, bytes]]) -> str:
        """The address of the client whose request came from `peer` with these headers.

        Where the peer is trusted, this is the rightmost forwarded address that is no trusted proxy. A value
        that is no address (invalid, `unknown`, an obfuscated name) ends the search at the proxy that wrote
        it. A proxy that writes one of the headers may pass the other from its client. So if both are present
        and name two clients, neither is believed: all such clients count as one, UNCLEAR.
        """
        if not self._hop(peer)[1]:
            return peer
        values: dict[bytes, list[bytes]] = {}
        for name, value in headers:
            if name in (X_FORWARDED_FOR, FORWARDED):
                values.setdefault(name, []).append(value)
        found = {
            self._client(peer, b",".join(lines), _forwarded if name == FORWARDED else _x_forwarded_for)
            for name, lines in values.items()
        }
        if not found:
            return peer
        return found.pop() if len(found) == 1 else UNCLEAR

    def _client(self, peer: str, value: bytes, read: Callable[[bytes], str]) -> str:
        last = peer
        for element in reversed(value.rsplit(b",", HOPS_MAX)[-HOPS_MAX:]):
            address, trusted = self._hop(read(element))
            if not address:
                break
            last = address
            if not trusted:
                break
        return last

    def _read_hop(self, text: str) -> tuple[str, bool]:
        """The address as it is usually written, and whether it is a trusted proxy; empty for no address."""
        address = parsed(text)
        if address is None:
            return "", False
        return str(address), any(address in network for network in self._networks)


def _forwarded(element: bytes) -> str:
    """The address of `for` in an element of Forwarded, such as `for="[2001:db8::1]:80";proto=https`; "" for
    none. Commas and semicolons in quotes are not supported: such an element has no address."""
    nodes = []
    for part in element.split(b";"):
        pair = _PAIR.fullmatch(part)
        if not pair:
            return ""
        if pair[1].lower() == b"for":
            nodes.append(pair[2] or pair[3])
    return _node(nodes[0]) if len(nodes) == 1 else ""


def _x_forwarded_for(element: bytes) -> str:
    """The address of an element of X-Forwarded-For, "" for none. It has no standard: ports and brackets
    occur."""
    text = element.strip(b" \t")
    return text.decode() if _BARE_IPV6.fullmatch(text) else _node(text)


def _node(text: bytes) -> str:
    """The address of an RFC 7239 node, without its port."""
    node = _NODE.fullmatch(text)
    return (node[1] or node[2]).decode() if node else ""

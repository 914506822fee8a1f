"""Network addresses of clients: parse, group, compare."""

import ipaddress
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

IPV6_CLIENT_BITS = 64
"""An IPv6 network of this length usually belongs to one client."""


def parsed(text: str) -> Address | None:
    """The address without its zone, or None for what is no address. An IPv4 address that is mapped to IPv6 is
    an IPv4 address."""
    try:
        ip = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return None
    return ip.ipv4_mapped or ip if isinstance(ip, IPv6Address) else ip


@lru_cache(maxsize=1024)
def client_network(text: str) -> str:
    """The network that counts as one client: the IPv4 address, or the IPv6 network of 64 bits. Empty for a
    loopback address, which all clients of a proxy on this machine have. Other text is returned unchanged."""
    ip = parsed(text)
    if ip is None:
        return text
    if ip.is_loopback:
        return ""
    if isinstance(ip, IPv6Address):
        return str(ipaddress.ip_network((ip, IPV6_CLIENT_BITS), strict=False))
    return str(ip)


def networks(text: str) -> tuple[Network, ...]:
    """The networks of a list separated by commas, such as `10.0.0.0/8, 192.0.2.1`. Raises ValueError, also
    for the network of all addresses and for one with bits set after its prefix."""
    found = tuple(ipaddress.ip_network(part.strip()) for part in text.split(",") if part.strip())
    if not all(one.prefixlen for one in found):
        raise ValueError("a network of every address")
    return found


def are_networks(text: str) -> bool:
    """Whether `networks` accepts the list."""
    try:
        networks(text)
    except ValueError:
        return False
    return True

"""Which URLs are valid settings, URLs without the passwords in them, and network addresses of clients."""

import ipaddress
import re
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from urllib.parse import urlsplit

_VISIBLE = re.compile(r"[\x21-\x7e]+")
_APP = re.compile(r"(?!https?:|ftp:)[a-z][a-z0-9+.-]*://(?:\*|[A-Za-z0-9._-]*(?::[0-9]{1,5})?)")
_HOST_AND_PORT = re.compile(r"(?:[^:\[\]/@]*|\[[0-9A-Fa-f:.%]+\])(?::[0-9]{1,5})?")
Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network
IPV6_CLIENT_BITS = 64
"""An IPv6 network of this length usually belongs to one client."""


def without_login(url: str) -> str:
    """The URL without its user name and password; other text is returned unchanged."""
    scheme, separator, rest = url.partition("://")
    authority, slash, path = rest.partition("/")
    if not separator or "@" not in authority:
        return url
    return f"{scheme}://***@{authority.rpartition('@')[2]}{slash}{path}"


@lru_cache
def is_base_url(value: str) -> bool:
    """Whether it is an http or https URL with a host and without a query, to which a path can be added."""
    if not _VISIBLE.fullmatch(value) or "?" in value or "#" in value:
        return False
    try:
        parts = urlsplit(value)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # an invalid port or IPv6 address
        return False


def is_origin(url: str) -> bool:
    """Whether it is an http or https URL with only a host and, perhaps, a port."""
    return is_base_url(url) and "@" not in url and not urlsplit(url).path


def is_page_origin(origin: str) -> bool:
    """Whether it is what a browser or an app sends as `Origin`: an origin of any scheme, or `null`. One of
    http or https may have `*.` for all names below a host; one of another scheme `*` for all hosts."""
    host = origin.replace("://*.", "://", 1)
    return origin == "null" or ("*" not in host and is_origin(host)) or bool(_APP.fullmatch(origin))


def is_loopback(url: str) -> bool:
    """Whether the host is this machine: a loopback address or `localhost`."""
    host = urlsplit(url).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def is_secure(url: str) -> bool:
    """Whether it is an https URL without a query, or an http URL of this machine."""
    return is_base_url(url) and (urlsplit(url).scheme == "https" or is_loopback(url))


def is_database_url(url: str) -> bool:
    """Whether it is a URL of PostgreSQL. The ports are checked here: the error of the driver would contain a
    password that it parses as a port."""
    scheme, separator, rest = url.partition("://")
    if scheme not in ("postgresql", "postgres") or not separator or not _VISIBLE.fullmatch(rest):
        return False
    hosts = re.split("[/?#]", rest, maxsplit=1)[0].rpartition("@")[2]
    return all(_HOST_AND_PORT.fullmatch(host) for host in hosts.split(","))


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

"""Cross-origin requests of browsers (CORS, see the Fetch standard), for origins that the operator allows.

Every visitor of a web page can read a key in it, so no origin is allowed by default. CORS credentials, such
as cookies, are never allowed: the key is in a header.
"""

import re
from collections.abc import Iterable

from myna.http.request_head import Headers

ALLOWED = ("Authorization", "Content-Type", "Idempotency-Key", "X-Request-Id")
"""Request headers that are read. A page may send others, which are ignored: libraries add their own."""
EXPOSED = (
    "X-Request-Id", "X-Units-Cost", "X-Units-Balance", "X-Ignored-Fields", "X-Myna-Channel",
    "X-Ignored-Tools", "X-Unspoken", "Retry-After", "X-Should-Retry",
    "X-RateLimit-Limit-Requests", "X-RateLimit-Remaining-Requests", "X-RateLimit-Reset-Requests",
)  # fmt: skip
PREFLIGHT_MAX_AGE_S = 600
_NAMES = re.compile(rb"[a-z0-9!#$%&'*+.^_`|~-]{1,100}", re.IGNORECASE)
_READ = frozenset(name.lower().encode() for name in ALLOWED)
_USUAL_PORT = re.compile(r"^(http(?=:.*:80$)|https(?=:.*:443$))(.*):\d+$", re.IGNORECASE)
_VARY = (b"vary", b"Origin")


class Cors:
    """CORS headers for pages of the allowed origins, each such as `https://app.example.com`,
    `https://*.example.com` for all names below, or `moz-extension://*` for all of a scheme. Case makes no
    difference, nor does the port that browsers leave out."""

    def __init__(self, origins: Iterable[str]) -> None:
        sent = (_USUAL_PORT.sub(r"\1\2", origin) for origin in origins)
        patterns = (re.escape(origin).replace(r"\*", "[a-z0-9.-]+") for origin in sent)
        self._allowed = re.compile("|".join(patterns).encode(), re.IGNORECASE)

    def answer(self, headers: Headers) -> Headers:
        """The CORS headers of every response, errors included. Vary keeps responses to two origins apart in
        caches."""
        origin = self._origin(headers)
        if origin is None:
            return [_VARY]
        exposed = ", ".join(EXPOSED).encode()
        return [_VARY, (b"access-control-allow-origin", origin), (b"access-control-expose-headers", exposed)]

    def preflight(self, method: str, headers: Headers, methods: Iterable[str]) -> dict[str, str] | None:
        """The headers of the response to a preflight, in addition to those of `answer`; None if this is no
        preflight from an allowed origin. A preflight carries no key."""
        values = dict(headers)
        if method != "OPTIONS" or b"access-control-request-method" not in values or not self._origin(headers):
            return None
        asked = _NAMES.findall(values.get(b"access-control-request-headers", b""))
        more = [name for name in asked if name.lower() not in _READ]
        return {
            "Access-Control-Allow-Methods": ", ".join(methods),
            "Access-Control-Allow-Headers": ", ".join([*ALLOWED, *(name.decode() for name in more)]),
            "Access-Control-Max-Age": str(PREFLIGHT_MAX_AGE_S),
        }

    def _origin(self, headers: Headers) -> bytes | None:
        origins = [value for name, value in headers if name == b"origin"]
        return origins[0] if len(origins) == 1 and self._allowed.fullmatch(origins[0]) else None

"""The one way out over HTTP: a total deadline, a cap on connections, a limit on the answer, nothing followed.

HTTP/1.1 over asyncio's own transports with httptools (Node's llhttp) as the parser; why no ready client is
in docs/decisions/0002-http-client.md. What holds for every call:

- Nothing is ever sent twice. A kept connection is looked at before its use, so that one which its server has
  closed meanwhile is replaced before a byte goes out; one that answered more than once and rested for but a
  moment is trusted. A connection that ends after that is `Broken`, for a server may have worked on what it
  read (RFC 9110, 9.2.2).
- A call that is cancelled, late or broken closes its connection at once and gives its place back.
- Redirects come back as they are. There are no cookies, no proxies (the environment's neither), no protocol
  upgrades, and nothing is decompressed: `identity` is asked for, and the limit counts what comes in.
- Certificates are checked against the system's roots, or those that SSL_CERT_FILE names.

An `Outbound` belongs to one event loop, any: asyncio's or uvloop's.
"""

from myna.outbound.client import Outbound
from myna.outbound.connection import Accept, Answer, Sink
from myna.outbound.failures import AnswerTooLarge, Broken, OutboundFailed, TimedOut, Unreachable

__all__ = [
    "Accept",
    "Answer",
    "AnswerTooLarge",
    "Broken",
    "Outbound",
    "OutboundFailed",
    "Sink",
    "TimedOut",
    "Unreachable",
]

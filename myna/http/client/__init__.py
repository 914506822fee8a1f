"""The HTTP client: a total deadline, limits on connections and responses, no redirects.

HTTP/1.1 over asyncio's transports, parsed by httptools (Node's llhttp): see
docs/decisions/0002-http-client.md. Every call has these properties:

- No request is sent twice. The socket is polled right before a request is sent, so an idle connection that
  its server has closed is replaced first. A connection that ends later raises `ConnectionBroken`, since the
  server may have processed the request (RFC 9110, 9.2.2).
- No caller gets the response to another caller's request: `client.py` describes the limits of this.
- A call that is cancelled, times out or fails closes its connection immediately and releases its slot.
- Redirects are returned, not followed. There are no cookies, no proxies (not even the environment's), no
  protocol upgrades. The client requests `identity`; a body in gzip or deflate is decompressed all the same,
  and limits count its decompressed bytes.
- Certificates are checked against the system's roots, or those in SSL_CERT_FILE.

An `HttpClient` belongs to one event loop, of asyncio or uvloop.
"""

from myna.http.client.client import HttpClient
from myna.http.client.connection import SAYS_NOTHING, Accept, ClientResponse, Sink
from myna.http.client.errors import (
    AnswerTooLarge,
    ConnectionBroken,
    IdleTimedOut,
    OutOfFiles,
    RequestFailed,
    TimedOut,
    Unreachable,
)
from myna.http.client.flow import Flow

__all__ = [
    "SAYS_NOTHING",
    "Accept",
    "AnswerTooLarge",
    "ClientResponse",
    "ConnectionBroken",
    "Flow",
    "HttpClient",
    "IdleTimedOut",
    "OutOfFiles",
    "RequestFailed",
    "Sink",
    "TimedOut",
    "Unreachable",
]

"""Errors of outgoing requests.

RequestFailed
├── Unreachable       no connection: a bad address or header, DNS, refused, TLS; not one byte was sent
│   └── OutOfFiles    this process may not open another file
├── TimedOut          the total deadline passed
│   └── IdleTimedOut  the server sent nothing for too long
├── ConnectionBroken  the connection ended during the call, or the response is not HTTP
└── AnswerTooLarge    the response, or its head, is over its limit
"""


class RequestFailed(Exception):
    """A call has no response. The message names host and port, never a path, a header or a user."""


class Unreachable(RequestFailed):
    """There was no connection and nothing was sent, so another address may be tried safely."""


class OutOfFiles(Unreachable):
    """This process, or the system, has no file descriptor for a connection. The server is not the cause."""


class TimedOut(RequestFailed):
    """The deadline passed. The server may still be working on the call."""


class IdleTimedOut(TimedOut):
    """The server sent nothing for too long. It may still be working on the call."""


class ConnectionBroken(RequestFailed):
    """The connection ended before the response, or that is not HTTP. The server may have done the work."""


class AnswerTooLarge(RequestFailed):
    """The response is over the caller's limit of `limit_bytes`, if these are not 0; the rest was not read."""

    def __init__(self, why: str, limit_bytes: int = 0) -> None:
        super().__init__(why)
        self.limit_bytes = limit_bytes

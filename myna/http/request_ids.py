"""The id of a request, in its response and in the log: the client's X-Request-Id, or a new one."""

import re

from myna.http.asgi_types import REQUEST_ID, Scope
from myna.ids import new_id

_VALID = re.compile(rb"[A-Za-z0-9._-]{1,64}")
_SECRET = re.compile(rb"myna(?:node|join)?_|\bsk-|[0-9a-f]{40}", re.IGNORECASE)
"""Possibly an API key of Myna or a vendor, a node's credential or a join token. None may reach the log."""
_TRACE = re.compile(rb"[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}")


def traceparent_of(scope: Scope) -> str:
    """The client's traceparent, which goes to the channel as it is; empty without a valid one."""
    for name, value in scope["headers"]:
        if name == b"traceparent" and _TRACE.fullmatch(value):
            return bytes(value).decode()
    return ""


def request_id_of(scope: Scope) -> str:
    """The client's X-Request-Id if it is valid and can't be a secret, else a new one; always the same one.

    A new id contains its time, so that the calls of a request are found among those of some minutes: an index
    of request ids would cost every call a write.
    """
    if REQUEST_ID not in scope:
        scope[REQUEST_ID] = _sent_id(scope["headers"]) or new_id().hex()
    return str(scope[REQUEST_ID])


def _sent_id(headers: list[tuple[bytes, bytes]]) -> str:
    """The first valid id among the headers; empty if there is none."""
    for name, value in headers:
        if name == b"x-request-id" and _VALID.fullmatch(value) and not _SECRET.search(value):
            return value.decode()
    return ""

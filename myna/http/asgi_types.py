"""The types of ASGI, and what Myna's server adds to a scope."""

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

ABORT = "myna.abort"
"""A function that closes the connection without a response."""
BODY_COMPLETE = "myna.whole"
"""Present once the complete body of the request has arrived."""
DETAILS = "myna.details"
"""The `RequestDetails` of the request."""
EOF_RECEIVED = "myna.ended"
"""A function: whether the client has closed its sending side of the connection."""
OPEN_STREAM = "myna.stream"
"""A function that returns the `ResponseStream` of the request: `open_stream(headers)`."""
OPENED = "myna.opened"
"""The `ResponseStream` of the request, once it was opened."""
REQUEST_ID = "myna.request_id"
"""The id of the request, once `request_id_of` was called."""
RESPOND = "myna.respond"
"""A function that sends a complete response in one write: `respond(status, headers, body)`. Returns False if
the response must be sent through `send`."""
STOPPING = "myna.stopping"
"""A function: whether the process is shutting down."""
LINGER_S = 2.0
LINGER_MAX_BYTES = 16 * 2**20


def with_headers(send: Send, more: list[tuple[bytes, bytes]]) -> Send:
    """`send` that adds headers to the response."""

    async def send_with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            message["headers"] = [*message["headers"], *more]
        await send(message)

    return send_with_headers


def stopping(scope: Scope) -> bool:
    """Whether the process is shutting down: it finishes the calls in flight and starts no new ones."""
    is_stopping = scope.get(STOPPING)
    return bool(is_stopping and is_stopping())


def draining(scope: Scope) -> bool:
    """Whether the process was told to end, and is to get no new calls."""
    is_stopping = scope.get(STOPPING)
    return bool(is_stopping and is_stopping(or_draining=True))


async def linger(receive: Receive) -> None:
    """Discards the rest of the body for a short time: a client that still sends would otherwise get a reset
    instead of the response."""
    discarded_bytes = 0
    try:
        async with asyncio.timeout(LINGER_S):
            while discarded_bytes < LINGER_MAX_BYTES:
                message = await receive()
                if message["type"] != "http.request" or not message.get("more_body"):
                    return
                discarded_bytes += len(message.get("body", b""))
    except TimeoutError:
        return


async def abort(scope: Scope, receive: Receive) -> None:
    """Closes the connection without a response. Returns when the server has noticed, since it would send a
    500 if the application returned before."""
    scope[ABORT]()
    while (await receive())["type"] != "http.disconnect":
        pass

"""What the tests of the client send, and how they wait."""

import asyncio
from collections.abc import Mapping

from myna.outbound import Answer, Outbound

HEADERS: Mapping[str, str] = {"Content-Type": "application/json", "Authorization": "Bearer top-secret"}
BODY = b'{"text":"' + b"x" * 500 + b'"}'


async def post(
    outbound: Outbound,
    url: str,
    body: bytes = BODY,
    *,
    headers: Mapping[str, str] = HEADERS,
    deadline_s: float = 10.0,
    answer_max_bytes: int = 100_000,
) -> Answer:
    """A call as the chat makes it."""
    return await outbound.request(
        "POST", url, headers=headers, body=body, deadline_s=deadline_s, answer_max_bytes=answer_max_bytes
    )


async def get(outbound: Outbound, url: str, *, deadline_s: float = 10.0) -> Answer:
    return await outbound.request(
        "GET", url, headers={}, body=None, deadline_s=deadline_s, answer_max_bytes=100_000
    )


class Stopwatch:
    """Seconds since it was made, by the loop's clock."""

    def __init__(self) -> None:
        self._start = asyncio.get_running_loop().time()

    def seconds(self) -> float:
        return asyncio.get_running_loop().time() - self._start

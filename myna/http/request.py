"""A request as a handler of /v1 and /farm/v1 gets it: headers, query, and a body within its limits.

The limits are on the size of each, on the memory of all in one process, and on the time that
decoding large ones takes from the event loop.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar
from urllib.parse import parse_qsl

from msgspec import Struct, field

from myna.errors import (
    BodyTooLarge,
    BodyTooSlow,
    InvalidRequest,
    ShuttingDown,
    TooManyBodies,
    Unauthorized,
    UnsupportedEncoding,
)
from myna.http.exchange import Exchange
from myna.lib.shares import Shares

SMALL_BODY_BYTES = 64 * 1024
"""Smaller bodies are neither counted nor paced: the limit on connections bounds their memory."""
ACCOUNT_SHARES = 4
"""One account may use at most 1 / ACCOUNT_SHARES of the budget."""
T = TypeVar("T")
WAIT_S: Final = 20.0
ANSWER_WAIT_S = 5.0
"""How long an answer waits for its turn: less than the margin of a call's deadline."""
PATIENCE_S = 30.0
"""How long the client of a large body may send nothing."""
_thread = ThreadPoolExecutor(1, thread_name_prefix="large-body")
"""One: several threads would take the interpreter from the event loop for longer."""
_turns = Shares[int](1, 1, TooManyBodies)
QUERY_PARAMETERS_MAX = 100


class BodyBudget(Shares[int]):
    """The bytes of larger request bodies in the memory of one process, by account; 0 is for compute nodes,
    which have no share. One account may use at most its share: a quarter, or one body of the largest size if
    that is more."""

    def __init__(self, max_bytes: int, body_max_bytes: int = 0) -> None:
        super().__init__(max_bytes, max(max_bytes // ACCOUNT_SHARES, body_max_bytes), TooManyBodies)


class Pacer:
    """Admits one large body per iteration of the event loop, in order of arrival.

    Decoding one takes up to 50 ms. If many arrive together, other callbacks run between them. The first one
    doesn't wait.
    """

    def __init__(self) -> None:
        self._lock = asyncio.Lock()

    async def wait(self) -> None:
        """Returns to one waiter per iteration of the event loop."""
        await self._lock.acquire()
        asyncio.get_running_loop().call_soon(self._lock.release)


class BodyLimits(Struct, frozen=True):
    """Limits on each request body, and on all of them together."""

    body_max_bytes: int
    body_timeout_s: float
    budget: BodyBudget
    pacer: Pacer = field(default_factory=Pacer)


async def read_body(read: Callable[[], T], size_bytes: int, account_id: int, wait_s: float = WAIT_S) -> T:
    """The result of `read`, which decodes and checks a body of this size, and is pure. The accounts that wait
    are served in turn. Raises TooManyBodies after `wait_s`, and what `read` raises."""
    if size_bytes <= SMALL_BODY_BYTES:
        return read()
    await _turns.wait_for(account_id, wait_s)
    try:
        return await asyncio.get_running_loop().run_in_executor(_thread, read)
    finally:
        _turns.release(account_id)


async def read_answer(read: Callable[[], T], size_bytes: int, account_id: int) -> T:
    """Likewise for the answer of a channel. It is not refused, since the channel has done its work: without a
    turn within ANSWER_WAIT_S it is read on the event loop. Raises what `read` raises."""
    try:
        return await read_body(read, size_bytes, account_id, ANSWER_WAIT_S)
    except TooManyBodies:
        return read()


class Request(Exchange):
    """A request as passed to a handler, with the `limits` of its body. Header names are in lower case."""

    __slots__ = ("limits",)

    limits: BodyLimits

    def header(self, name: bytes) -> bytes | None:
        """The value of a header, or None. Raises InvalidRequest for a duplicate header."""
        value = self.headers.get(name)
        if value is not None and len(self.headers) < len(self.fields) and self._duplicate(name):
            raise InvalidRequest("duplicate header; send it once.", field=name.decode())
        return value

    def _duplicate(self, name: bytes) -> bool:
        return [key for key, _ in self.fields].count(name) > 1

    @property
    def authorization(self) -> bytes | None:
        """The Authorization header, or None. Raises Unauthorized for a duplicate header."""
        try:
            return self.header(b"authorization")
        except InvalidRequest as duplicate:
            raise Unauthorized(duplicate.message) from None

    def query(self) -> dict[str, str]:
        """The query parameters. Raises InvalidRequest for duplicates, too many or invalid UTF-8."""
        parameters: dict[str, str] = {}
        try:
            pairs = parse_qsl(
                (self._url.query or b"").decode("ascii"),
                keep_blank_values=True,
                errors="strict",
                max_num_fields=QUERY_PARAMETERS_MAX,
            )
        except UnicodeDecodeError:
            raise InvalidRequest("The query is not valid UTF-8.") from None
        except ValueError:
            raise InvalidRequest(f"The query has more than {QUERY_PARAMETERS_MAX} parameters.") from None
        for name, value in pairs:
            if name in parameters:
                raise InvalidRequest("duplicate parameter in the query; send it once.", field=name[:40])
            parameters[name] = value
        return parameters

    @property
    def declared_bytes(self) -> int | None:
        """Content-Length; None for a chunked body."""
        value = self.header(b"content-length")
        if value is not None:
            return int(value) if value.isdigit() else 0
        return None if self.header(b"transfer-encoding") else 0

    async def body(self) -> bytes:
        """The complete body. Its bytes count against the budget of the account until `release`.

        A large body is returned in a separate iteration of the event loop (see `Pacer`); the caller decodes
        it before it awaits anything else. Raises BodyTooLarge before more than the limit is read,
        TooManyBodies before the budget is exceeded, InvalidRequest if the body takes too long or ends early,
        UnsupportedEncoding, and ShuttingDown if the process is told to stop before the body has arrived."""
        self._counted_for = self.details.account_id
        if not self.more_body:  # the usual case waits for nothing
            self._check_encoding()
            body, _ = _there(self.take())
            if len(body) > self.limits.body_max_bytes:
                raise BodyTooLarge(self.limits.body_max_bytes)
        else:
            body = await self._read_in_time()
        if len(body) > SMALL_BODY_BYTES:
            self._count(len(body))
            await self.limits.pacer.wait()
        return body

    async def _read_in_time(self) -> bytes:
        max_bytes = self.limits.body_max_bytes
        if (self.declared_bytes or 0) > max_bytes:
            raise BodyTooLarge(max_bytes)
        try:
            async with asyncio.timeout(self.limits.body_timeout_s):
                return await self._read(max_bytes)
        except TimeoutError:
            raise BodyTooSlow(self.limits.body_timeout_s) from None

    def _count(self, size_bytes: int) -> None:
        """Counts `size_bytes` of this body against the budget. Raises TooManyBodies."""
        more = size_bytes - self._counted_bytes
        if size_bytes > SMALL_BODY_BYTES and more > 0:
            self.limits.budget.take(self._counted_for, more)
            self._counted_bytes = size_bytes

    def release(self) -> None:
        """Returns the bytes of the body to the budget."""
        if self._counted_bytes:
            self.limits.budget.release(self._counted_for, self._counted_bytes)
            self._counted_bytes = 0

    def _check_encoding(self) -> None:
        """Raises UnsupportedEncoding for a body that is not sent as it is."""
        if b"content-encoding" in self.headers:
            encoding = (self.header(b"content-encoding") or b"").decode("latin-1").strip().lower()
            if encoding not in ("", "identity"):
                raise UnsupportedEncoding(encoding)

    async def receive(self, sink: Callable[[bytes, bool], None], slowest_bytes_per_s: float) -> None:
        """Receives a large body: `sink` gets each part, and whether more follow. Raises BodyTooSlow below
        this average rate or after PATIENCE_S without a part, InvalidRequest if it ends early,
        UnsupportedEncoding, and what `sink` raises."""
        self._check_encoding()
        clock = asyncio.get_running_loop().time
        began, size_bytes, more = clock(), 0, True
        while more:
            until = min(clock(), began + size_bytes / slowest_bytes_per_s) + PATIENCE_S
            try:
                async with asyncio.timeout_at(until):
                    data, more = _there(await self.read())
            except TimeoutError:
                raise BodyTooSlow(round(clock() - began, 1)) from None
            size_bytes += len(data)
            sink(data, more)

    async def _read(self, max_bytes: int) -> bytes:
        self._check_encoding()
        parts: list[bytes] = []
        size = 0
        more = True
        while more:
            part, more = _there(await self.read())
            if more and self.stopping:
                raise ShuttingDown
            parts.append(part)
            size += len(part)
            if size > max_bytes:
                raise BodyTooLarge(max_bytes)
            self._count(size)
        return parts[0] if len(parts) == 1 else b"".join(parts)


def _there(part: tuple[bytes, bool] | None) -> tuple[bytes, bool]:
    """A part of the body. Raises InvalidRequest without one."""
    if part is None:
        raise InvalidRequest("The body ended early.")
    return part

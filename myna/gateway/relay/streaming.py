"""One streamed answer: from the first channel that begins to answer to the end of the client's stream."""

import asyncio
import time
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Final

import msgspec

from myna.channels import routes
from myna.channels.channels import PARROT, Channel
from myna.errors import MynaError, StreamUnread
from myna.gateway.failover import FailedAttempt, from_error, from_request, from_status, logged, note_tokens
from myna.gateway.relay import answers
from myna.gateway.relay.events import ERROR_EVENT, BrokenEvents, EventRelay
from myna.gateway.relay.plan import RelayPlan, Shape
from myna.http.client import SAYS_NOTHING, Flow, HttpClient, RequestFailed, TimedOut
from myna.http.exchange import ResponseStream
from myna.lib.telemetry.requests import RequestDetails
from myna.store.batch import STORED_ANSWER_MAX_BYTES
from myna.wire.completions import BYTES_PER_TOKEN, END_BYTES

EVENTS: Final = b"text/event-stream; charset=utf-8"
HEADERS: Final = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}
KEEP_ALIVE: Final = b": keep-alive\n\n"
KEEP_ALIVE_EVERY_S: Final = 15.0
AFTER_DONE_S: Final = 1.0
"""How long a channel may keep its response open after its last event; it is closed then."""
STREAM_MAX_BYTES: Final = 2**30
_SPACES: Final = b" \t\r\n"


class ClientLeft(Exception):
    """The client has disconnected; the request to the channel was ended."""


class StreamedAnswer:
    """The answer to one client. `headers` makes those of the response when it starts. With `stores`, a copy
    of what was sent is kept for a retry, and a client that leaves does not end the work. `sent`: the client
    has got a part of the answer, not just a comment."""

    def __init__(
        self, out: ResponseStream, shape: Shape, headers: Callable[[], Mapping[str, str]], *, stores: bool
    ) -> None:
        self.out = out
        self.shape = shape
        self.stores = stores
        self._headers = headers
        self._copy: list[bytes] = []
        self._copied_bytes = 0
        self._last = b""
        self.sent = False
        self.failure_event = b""  # sent by `fail` if it is part of the stored copy
        self.within_event = False  # a part of a long event was sent
        self._is_silent = False  # nothing was sent since the timer fired
        self._timer: asyncio.TimerHandle | None = None

    @property
    def begun(self) -> bool:
        """Whether the response has begun, or would have for a client that stayed."""
        return self.out.started

    def begin_in(self, seconds: float) -> None:
        """Begins the response with a comment after so many seconds without an event; 0: never."""

        def begin_with_comment() -> None:
            self._begin()
            self.out.write(KEEP_ALIVE)

        if seconds:
            self._timer = asyncio.get_running_loop().call_later(seconds, begin_with_comment)

    def _begin(self) -> None:
        self.stop()
        self.out.start({**HEADERS, **self._headers()}, EVENTS)
        self._start_timer()

    def send(self, events: bytes) -> None:
        """Sends whole events, and the head of the response before the first one."""
        if not events:
            return
        if not self.out.started:
            self._begin()
        self._is_silent = False
        self.out.write(events)
        self.sent = self.sent or not self.out.disconnected
        if self.stores and self._copied_bytes <= STORED_ANSWER_MAX_BYTES:
            self._copy.append(events)
            self._copied_bytes += len(events)

    def complete(self, last: bytes) -> str:
        """The answer is complete: returns the copy of it to store. `last` is sent by `end`."""
        self._last = last
        return b"".join([*self._copy, last]).decode(errors="replace") if self.stores else ""

    def end(self) -> None:
        """Sends the last events and the end of the response."""
        if not self.out.started:
            self._begin()
        self.stop()
        self.out.write(self._last)
        self.out.end()

    def fail(self, error: MynaError) -> None:
        """Sends an event with the error, and the end of the response: clients take a connection that breaks
        for an error of the network, and some never show the event."""
        self.stop()
        end_of_event = b"\n\n" if self.within_event else b""
        self.out.write(end_of_event + (self.failure_event or self.shape.error_event(error)))
        if isinstance(error, StreamUnread):  # the client does not read
            self.out.abort()
        else:
            self.out.end()

    def stop(self) -> None:
        """Sends no more comments."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _keep_alive(self) -> None:
        """Sends a comment after a time of silence, so that proxies keep the connection open."""
        if self._is_silent and not self.within_event:
            self.out.write(KEEP_ALIVE)
        self._is_silent = True
        self._start_timer()

    def _start_timer(self) -> None:
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(KEEP_ALIVE_EVERY_S, self._keep_alive)


class ChannelStream:
    """The response of one channel, on its way to the client. Used once. An answer that is not streamed and
    an event that must be read have at most `answer_max_bytes`."""

    def __init__(
        self, answer: StreamedAnswer, plan: RelayPlan, channel: Channel, *, answer_max_bytes: int
    ) -> None:
        self._answer = answer
        self._plan = plan
        self._channel = channel
        self._observer = answer.shape.observer_for(channel)
        self._answer_max_bytes = answer_max_bytes
        self._events = self._relay()
        self._whole: bytearray | None = None
        self._is_known = False  # whether the body is one JSON object or events
        self._flow = Flow()
        self._began_s = time.monotonic()
        self._first_byte_s = 0.0
        self._end = b""  # of the body
        self._parts = 0
        self._limit = asyncio.timeout(None)

    async def run(self, http_client: HttpClient, left_s: float) -> bytes:
        """Passes on the answer of the channel, all but the last events, which are returned. Raises
        FailedAttempt, which is final once the response has begun, and ClientLeft."""
        try:
            if self._channel.url == PARROT:
                request = self._plan.request
                self._send_whole(answers.parrot(request.instruction, request))
            else:
                await self._request(http_client, left_s)
                if self._whole is None:
                    self._answer.send(self._events.close())
                else:
                    self._send_whole(self._plan.streamed(self._channel, bytes(self._whole)))
            return self._answer.shape.last(self._events)
        except FailedAttempt as failed:
            self._note(failed)
            raise
        except RequestFailed as failure:
            if self._flow.paused and self._answer.begun and type(failure) is TimedOut:
                raise ClientLeft from failure  # the client does not read
            raise self._note(from_request(failure)) from failure
        except BrokenEvents as broken:
            raise self._note(self._of_events(broken)) from broken

    def note(self, details: RequestDetails) -> None:
        """Notes when the answer began, and its tokens: about one for each event, if the channel says none."""
        if self._parts:
            details.first_byte_ms = round(self._first_byte_s * 1000, 2)
            output = self._parts if self._whole is None else len(self._whole) // BYTES_PER_TOKEN
            note_tokens(details, self._end, self._plan.body_for(self._channel), output)

    def _note(self, failed: FailedAttempt) -> FailedAttempt:
        """The failure: another channel may begin only if nothing was sent, and a stream that is longer than
        its deadline is no fault of the channel. Not a local variable where it is raised: it and the frame in
        its traceback would be a reference cycle, which keeps the answer."""
        failed.final = failed.final or self._answer.begun
        failed.blameless = failed.blameless or (self._answer.sent and failed.kind == TimedOut.__name__)
        return failed

    def _of_events(self, broken: BrokenEvents) -> FailedAttempt:
        if broken.kind == ERROR_EVENT:
            return from_error(broken.kind, str(broken), broken.detail, self._channel)
        detail = logged(broken.detail, self._channel) if broken.detail else ""
        return FailedAttempt(broken.kind, str(broken), detail, limit_bytes=self._answer_max_bytes)

    async def _request(self, http_client: HttpClient, left_s: float) -> None:
        """The request, until its response has arrived or the client has left."""
        out = self._answer.out
        out.on_pause, out.on_resume = self._flow.pause, self._flow.resume
        if out.is_paused:
            self._flow.pause()
        if not self._answer.stores:
            if out.disconnected:
                raise ClientLeft
            out.on_disconnect = self._end_now
        try:
            async with self._limit:
                response = await http_client.request(
                    "POST",
                    self._channel.url.rstrip("/") + self._plan.path_for(self._channel),
                    headers=self._channel.headers("text/event-stream, application/json"),
                    body=self._plan.body_for(self._channel),
                    deadline_s=left_s,
                    answer_max_bytes=STREAM_MAX_BYTES,
                    sink=self._receive,
                    accept=lambda status, headers: status == HTTPStatus.OK,
                    flow=self._flow,
                )
        except TimeoutError:
            if self._events.done:
                return
            raise ClientLeft from None
        except RequestFailed:
            if self._events.finished:  # the answer is complete, however its response ended
                return
            raise
        finally:
            out.on_pause = out.on_resume = out.on_disconnect = None
        if response.status != HTTPStatus.OK:
            callers = routes.model_is_callers(self._plan.route)
            raise from_status(response, self._channel, model_is_callers=callers)

    def _relay(self) -> EventRelay:
        request = self._plan.request
        counts_usage = request.counts_usage and self._observer is None
        return EventRelay(
            self._observer,
            choices=request.choices,
            typed=self._plan.has_typed_events(self._channel),
            read_max_bytes=self._answer_max_bytes,
            model=msgspec.json.encode(request.model),
            prompt_tokens=request.prompt_tokens if counts_usage else None,
        )

    def _send_whole(self, whole: bytes) -> None:
        """Sends an answer that came whole as a stream."""
        self._events = self._relay()
        events = answers.as_events(whole, with_usage=self._plan.request.counts_usage)
        self._answer.send(b"".join(map(self._events.feed, events)))

    def _receive(self, part: bytes) -> object:
        """Called for each part of the body, on the event loop. Raises BrokenEvents."""
        if not self._parts:
            self._first_byte_s = time.monotonic() - self._began_s
        self._parts += part.count(b"\ndata:") or 1
        self._end = (self._end + part)[-END_BYTES:] if len(part) < END_BYTES else part
        if self._whole is not None:
            self._whole += part
            if len(self._whole) > self._answer_max_bytes:
                raise BrokenEvents("AnswerTooLarge", "the answer is too large")
        elif self._is_known:
            self._pass(part)
        elif start := part.lstrip(_SPACES)[:1]:
            self._is_known = True
            if start == b"{":
                self._whole = bytearray(part)
            else:
                self._pass(part)
        return SAYS_NOTHING if self._events.says_nothing else None

    def _pass(self, part: bytes) -> None:
        self._answer.send(self._events.feed(part))
        self._answer.within_event = self._events.passes_long
        if self._events.done and self._limit.when() is None:
            self._limit.reschedule(asyncio.get_running_loop().time() + AFTER_DONE_S)

    def _end_now(self) -> None:
        if not self._limit.expired():
            self._limit.reschedule(0)

"""Use case: a call of /openai/v1 that a channel answers. Plan, charge, channel, keep or refund.

A stream is kept once its answer is complete, before the last events leave, and when the client leaves after
a part of the answer was sent. It is refunded where nothing was sent. Where the channel fails after a part was
sent, the site setting `broken_stream` decides. The client's disconnect ends the request to the channel,
unless the call has an idempotency key, whose retry gets the whole answer.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Final, Protocol

import msgspec

from myna import routes
from myna.channels import PARROT, Channel, Channels
from myna.chat.complete import Chat
from myna.chat.failover import FailedAttempt, first_answer, of_request, of_status, refusal_of
from myna.chat.upstream import headers_of
from myna.config import ConfigCache
from myna.errors import (
    CallAbandoned,
    ClientDisconnected,
    ModelNotFound,
    MynaError,
    StreamFailed,
    StreamUnread,
    UpstreamFailed,
)
from myna.http.responses import Response
from myna.http.stream import ResponseStream
from myna.http_client import HttpClient, IdleTimedOut, RequestFailed, TimedOut
from myna.keys import Scope, UnverifiedCaller
from myna.ledger import Attempt, Call, ChargeOrder, Ledger
from myna.relay import answers
from myna.relay.plan import RelayPlan
from myna.relay.shapes import DONE
from myna.relay.streaming import EVENTS, HEADERS, ClientLeft, Passage, StreamBroken, StreamedAnswer
from myna.settings import Settings
from myna.store.batch import Replayed
from myna.telemetry import access_log, metrics
from myna.telemetry.access_log import RequestDetails

log = logging.getLogger(__name__)


class Client(Protocol):
    """What is needed of the client's request."""

    def stream(self) -> ResponseStream:
        """The response as a stream, of which nothing is sent yet."""

    async def disconnected(self) -> None:
        """Returns when the client has disconnected."""


UnitHeaders = Callable[[RequestDetails], Mapping[str, str]]
KEPT_SETTING: Final = "keep"
REASONS: Final = {
    TimedOut.__name__: "it took longer than a stream may",
    IdleTimedOut.__name__: "the channel was silent for too long",
}
"""Why a stream is incomplete, by the kind of its failure."""
SPEAKING_MODEL: Final = "svc-chat"


class Relay:
    """Relays calls for one process. `unit_headers` makes the headers about the units of a charged call."""

    def __init__(
        self,
        settings: Settings,
        ledger: Ledger,
        config: ConfigCache,
        channels: Channels,
        http_client: HttpClient,
        chat: Chat,
        unit_headers: UnitHeaders,
    ) -> None:
        self._settings = settings
        self._ledger = ledger
        self._config = config
        self._channels = channels
        self._http_client = http_client
        self._chat = chat
        self._unit_headers = unit_headers

    async def answer(
        self,
        caller: UnverifiedCaller,
        plan: Callable[[], Awaitable[RelayPlan]],
        client: Client,
    ) -> Response | ResponseStream:
        """Answers a request. `plan` is called again if the configuration was stale. Raises MynaError."""
        attempt, out = Attempt(self._ledger, caller), client.stream()
        while attempt.outcome is None:
            async with attempt:
                planned = await plan()
                if planned.speaks:
                    break
                streamed = self._answer_to(caller, planned, out)
                await self._charge(attempt, planned)
        if attempt.outcome is None:
            return await self._speak(caller, planned, client, out)
        if isinstance(attempt.outcome, Replayed):  # perhaps without a plan: its route may be removed
            return self._replay(attempt.outcome.answer, out)
        if not planned.streams:
            async with attempt.outcome as call:
                return await self._whole(call, planned, out)
        await self._streamed(attempt.outcome, planned, streamed)
        return out

    def _answer_to(self, caller: UnverifiedCaller, plan: RelayPlan, out: ResponseStream) -> StreamedAnswer:
        """The stream of one client. Made before the charge, after which nothing may fail outside the call."""
        shape = plan.shape(self._settings.answer_max_bytes)
        # The callbacks of a channel's connection have the context of the request that opened it.
        details = access_log.details()
        stores = caller.idempotency_key is not None
        return StreamedAnswer(out, shape, lambda: self._headers(details), stores=stores)

    async def _charge(self, attempt: Attempt, plan: RelayPlan) -> None:
        try:
            await attempt.charge(self._order(plan))
        except ModelNotFound:  # of the route, whose name is the operator's
            raise ModelNotFound(plan.model) from None

    def _order(self, plan: RelayPlan) -> ChargeOrder:
        seconds = self._settings.stream_deadline_s if plan.streams else self._settings.call_deadline_s
        return ChargeOrder(pays=Scope.CHAT, units=plan.units, seconds=seconds, route=plan.route.name)

    def _headers(self, details: RequestDetails) -> dict[str, str]:
        return {**self._unit_headers(details), "X-Myna-Channel": details.channel}

    def _replay(self, answer: str, out: ResponseStream) -> Response | ResponseStream:
        """The stored answer to a retry: one JSON object, or the events of a stream."""
        headers = self._unit_headers(access_log.details())
        if answer.startswith("{"):
            return Response(answer.encode(), headers=headers)
        out.start({**HEADERS, **headers}, EVENTS)
        out.write(answer.encode())
        out.end()
        return out

    async def _speak(
        self, caller: UnverifiedCaller, plan: RelayPlan, client: Client, out: ResponseStream
    ) -> Response | ResponseStream:
        """Has the instruction spoken, as /v1 does. The answer's content is the address of the audio."""
        message = {"role": "user", "content": plan.instruction}
        body = msgspec.json.encode({"model": SPEAKING_MODEL, "messages": [message]})
        spoken = await self._chat.complete(caller, body, client.disconnected, route=plan.route.name)
        answer = msgspec.json.encode(msgspec.json.decode(spoken) | {"model": plan.model})
        if not plan.streams:
            return Response(answer, headers=self._headers(access_log.details()))
        out.start({**HEADERS, **self._headers(access_log.details())}, EVENTS)
        out.write(b"".join([*answers.as_events(answer, with_usage=plan.counts_usage), DONE]))
        out.end()
        return out

    # Whole answers:

    async def _whole(self, call: Call, plan: RelayPlan, out: ResponseStream) -> Response:
        async def attempt(channel: Channel, left_s: float) -> bytes:
            if channel.url == PARROT:
                parrot = answers.parrot(plan.instruction, plan.model, plan.prompt_tokens)
                return plan.answer_of(channel, parrot)
            return await self._request(plan, channel, left_s)

        try:
            async with asyncio.timeout(None) as limit:
                if not call.repeatable:
                    out.on_disconnect = lambda: limit.reschedule(0)
                    if out.disconnected:
                        limit.reschedule(0)
                answer = await self._first(call, plan, attempt)
        except TimeoutError:
            raise ClientDisconnected from None
        finally:
            out.on_disconnect = None
        await plan.answered(call.account_id, answer)
        await call.keep(answer.decode(errors="replace") if call.repeatable else "")
        return Response(answer, headers=self._headers(access_log.details()))

    async def _request(self, plan: RelayPlan, channel: Channel, left_s: float) -> bytes:
        """The checked answer of a channel. Raises FailedAttempt."""
        try:
            answer = await self._http_client.request(
                "POST",
                channel.url.rstrip("/") + plan.path_for(channel),
                headers=headers_of(channel),
                body=plan.body_for(channel),
                deadline_s=left_s,
                answer_max_bytes=self._settings.answer_max_bytes,
            )
        except RequestFailed as failure:
            raise of_request(failure) from failure
        if answer.status != 200:
            raise of_status(answer, channel, model_is_callers=routes.model_is_callers(plan.route))
        return plan.answer_of(channel, answer.body)

    async def _first(
        self, call: Call, plan: RelayPlan, attempt: Callable[[Channel, float], Awaitable[bytes]]
    ) -> bytes:
        """The first answer of a channel. Raises RequestRefused if the request was at fault everywhere."""
        try:
            return await first_answer(
                self._channels,
                plan.channels,
                attempt,
                account_id=call.account_id,
                seconds=call.seconds_left,
                fair_try_s=self._settings.fair_try_s,
            )
        except UpstreamFailed as failed:
            cause = failed.__cause__
            if isinstance(cause, FailedAttempt) and cause.body:
                raise refusal_of(cause.body) from cause
            raise

    # Streams:

    async def _streamed(self, charged: Call, plan: RelayPlan, streamed: StreamedAnswer) -> None:
        """Sends the answer and ends the call. Raises MynaError while nothing was sent; an error after that is
        an event, which leaves after the refund is committed."""
        try:
            async with charged as call:
                streamed.begin_in(self._config.settings.stream_begin_s)
                failure = await self._stream(call, plan, streamed)
        except MynaError as error:
            if not streamed.begun:
                raise
            _fail(streamed, error)
        except asyncio.CancelledError:  # the process stops
            if streamed.begun:
                streamed.fail(CallAbandoned())
            raise
        else:
            if failure is None:
                streamed.end()
            else:
                _fail(streamed, failure)
        finally:
            streamed.stop()

    async def _stream(self, call: Call, plan: RelayPlan, streamed: StreamedAnswer) -> MynaError | None:
        """Passes on the answer, all but its last events, and keeps the call. Returns why a call is kept whose
        answer is not complete."""

        async def attempt(channel: Channel, left_s: float) -> bytes:
            passage = Passage(streamed, plan, channel, answer_max_bytes=self._settings.answer_max_bytes)
            return await passage.run(self._http_client, left_s)

        try:
            last = await self._first(call, plan, attempt)
        except ClientLeft:
            if not streamed.sent:
                raise ClientDisconnected from None
            left = streamed.out.disconnected
            why = ClientDisconnected if left else StreamUnread
            await call.keep("", reason=why.__name__)
            return None if left else StreamUnread()
        except StreamBroken as broken:
            self._note_broken(broken)
            kept = self._config.settings.broken_stream == KEPT_SETTING and streamed.sent
            reason = REASONS.get(broken.kind, "the channel broke its stream")
            if not kept:
                raise StreamFailed(reason, kept=False) from broken
            failure = StreamFailed(reason, kept=True)
            streamed.failure_event = streamed.shape.failed(failure)
            copy = streamed.complete(streamed.failure_event)
            await call.keep(copy, reason=StreamFailed.__name__)
            return failure
        if streamed.out.disconnected and not streamed.sent and not streamed.stores:
            raise ClientDisconnected
        await plan.answered(call.account_id, last)
        await call.keep(streamed.complete(last))
        return None

    def _note_broken(self, broken: StreamBroken) -> None:
        """Counts the failure of a channel. A stream that is longer than its deadline is none."""
        channel = access_log.details().channel
        if broken.kind != TimedOut.__name__:
            self._channels.circuits.failed(channel, str(broken))
        metrics.UPSTREAM_FAILURES.labels(channel, broken.kind).inc()
        log.warning("chat channel %r broke a stream: %s%s", channel, broken, broken.detail)


def _fail(streamed: StreamedAnswer, error: MynaError) -> None:
    """Ends the stream with an event about the error, which the access log has too."""
    details = access_log.details()
    details.error_type, details.message = error.type, error.message
    streamed.fail(error)

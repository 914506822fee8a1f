"""Use case: a call of /openai/v1 that a channel answers. Plan, charge, channel, keep or refund.

A stream is kept once its answer is complete, before the last events leave, and when the client leaves after
a part of the answer was sent. It is refunded where nothing was sent. Where the channel fails after a part was
sent, the site setting `broken_stream` decides. The client's disconnect ends the request to the channel,
unless the call has an idempotency key, whose retry gets the whole answer.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final, Protocol

from msgspec import Struct

from myna.accounts.keys import Scope, UnverifiedCaller
from myna.billing.ledger import Call, ChargeOrder, Ledger
from myna.channels import routes
from myna.channels.channels import PARROT, Channel
from myna.channels.routes import RouteKind
from myna.config import ConfigCache
from myna.engines.pool.admission import Slot
from myna.errors import (
    CallAbandoned,
    ClientDisconnected,
    MynaError,
    StreamFailed,
    StreamUnread,
    UpstreamFailed,
)
from myna.gateway.failover import ChannelClient, FailedAttempt, note_tokens
from myna.gateway.intent import speech_text
from myna.gateway.relay import answers
from myna.gateway.relay.events import DONE
from myna.gateway.relay.plan import RelayPlan
from myna.gateway.relay.streaming import EVENTS, HEADERS, ChannelStream, ClientLeft, StreamedAnswer
from myna.gateway.relay.v1 import Chat, RequestSummary
from myna.http.client import IdleTimedOut, TimedOut
from myna.http.exchange import ResponseStream
from myna.http.request import read_body
from myna.http.responses import Response
from myna.lib.telemetry import metrics
from myna.lib.telemetry.requests import RequestDetails
from myna.speech.synthesize import SpokenPlan
from myna.store.batch import Replayed


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


class ToRelay(Struct, frozen=True):
    """A plan, what it costs, and the stream of its client, or the speech that is the answer."""

    plan: RelayPlan
    order: ChargeOrder
    answer: StreamedAnswer | SpokenPlan


@dataclass(frozen=True, slots=True, eq=False)
class Relay:
    """Relays calls for one process. `unit_headers` makes the headers about the units of a charged call."""

    channel_client: ChannelClient
    ledger: Ledger
    config: ConfigCache
    chat: Chat
    unit_headers: UnitHeaders

    async def answer(
        self,
        caller: UnverifiedCaller,
        plan: Callable[[], Awaitable[RelayPlan]],
        client: Client,
    ) -> Response | ResponseStream:
        """Answers a request. `plan` is called again if the configuration was stale. Raises MynaError."""
        out = client.stream()

        async def planned() -> ToRelay:
            found = await plan()
            if not found.speaks:
                return ToRelay(found, self._order(found), self._answer_to(caller, found, out))
            summary = RequestSummary(found.request.model, found.request.prompt_tokens)
            text = speech_text(found.request.instruction) or found.request.instruction
            speech = await self.chat.plan_speech(caller, text, summary, slot, found.route.name)
            return ToRelay(found, speech.order, speech)

        with Slot() as slot:
            outcome = await self.ledger.charge_plan(caller, planned)
            if isinstance(outcome, Replayed):
                return self._sent(outcome.answer.encode(), self.unit_headers(caller.details), out)
            charged, relayed = outcome
            if isinstance(relayed.answer, SpokenPlan):
                answer = await self.chat.speak(charged, relayed.answer, client.disconnected)
                return self._spoken(answer.encode(), relayed.plan, caller.details, out)
        if not relayed.plan.request.streams:
            async with charged as call:
                return await self._whole(call, relayed.plan, out)
        await self._streamed(charged, relayed.plan, relayed.answer)
        return out

    def _answer_to(self, caller: UnverifiedCaller, plan: RelayPlan, out: ResponseStream) -> StreamedAnswer:
        """The stream of one client. Made before the charge, after which nothing may fail outside the call."""
        shape = plan.shape(self.channel_client.settings.answer_max_bytes)
        stores = caller.idempotency_key is not None
        return StreamedAnswer(out, shape, partial(self._headers, caller.details), stores=stores)

    def _order(self, plan: RelayPlan) -> ChargeOrder:
        settings = self.channel_client.settings
        seconds = settings.stream_deadline_s if plan.request.streams else settings.call_deadline_s
        return ChargeOrder(
            pays=Scope.CHAT,
            units=plan.units,
            seconds=seconds,
            route=plan.route.name,
            model=plan.request.model,
        )

    def _headers(self, details: RequestDetails) -> dict[str, str]:
        return {**self.unit_headers(details), "X-Myna-Channel": details.channel}

    def _spoken(
        self, answer: bytes, plan: RelayPlan, details: RequestDetails, out: ResponseStream
    ) -> Response | ResponseStream:
        """The answer of a call that was spoken. Its content is the address of the audio."""
        if plan.request.streams:
            answer = b"".join([*answers.as_events(answer, with_usage=plan.request.counts_usage), DONE])
        return self._sent(answer, self._headers(details), out)

    def _sent(
        self, answer: bytes, headers: Mapping[str, str], out: ResponseStream
    ) -> Response | ResponseStream:
        """A whole answer: one JSON object, or the events of a stream."""
        if answer.startswith(b"{"):
            return Response(answer, headers=headers)
        out.start({**HEADERS, **headers}, EVENTS)
        out.write(answer)
        out.end()
        return out

    # Whole answers:

    async def _whole(self, call: Call, plan: RelayPlan, out: ResponseStream) -> Response:
        async def attempt(channel: Channel, left_s: float) -> bytes:
            if channel.url == PARROT:
                return plan.answer_of(channel, plan.parrot())
            return await self._request(call, plan, channel, left_s)

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
        await plan.store_answer(call.account_id, answer)
        await call.keep(answer.decode(errors="replace") if call.repeatable else "")
        return Response(answer, headers=self._headers(call.details))

    async def _request(self, call: Call, plan: RelayPlan, channel: Channel, left_s: float) -> bytes:
        """The checked answer of a channel. Raises FailedAttempt, TooManyBodies."""
        embeds = plan.route.kind is RouteKind.EMBEDDINGS
        answer = await self.channel_client.answer_of(
            channel,
            plan.path_for(channel),
            body := plan.body_for(channel),
            deadline_s=left_s,
            answer_max_bytes=self.channel_client.settings.embeddings_answer_max_bytes if embeds else None,
            model_is_callers=routes.model_is_callers(plan.route),
        )
        note_tokens(call.details, answer.body, body)
        size = len(answer.body)
        return await read_body(partial(plan.answer_of, channel, answer.body), size, call.account_id)

    async def _first(
        self, call: Call, plan: RelayPlan, attempt: Callable[[Channel, float], Awaitable[bytes]]
    ) -> bytes:
        """The first answer of a channel. Raises MynaError."""

        async def adapted(channel: Channel, left_s: float) -> bytes:
            until = time.monotonic() + left_s
            while True:
                try:
                    answer = await attempt(channel, until - time.monotonic())
                except FailedAttempt as failed:
                    if failed.final or not plan.adapt(channel, failed):
                        raise
                else:
                    plan.answered(channel)
                    return answer

        return await self.channel_client.first_answer(
            plan.channels, adapted, asker=call, seconds=call.seconds_left, kind=plan.route.kind
        )

    # Streams:

    async def _streamed(self, charged: Call, plan: RelayPlan, streamed: StreamedAnswer) -> None:
        """Sends the answer and ends the call. Raises MynaError while nothing was sent; an error after that is
        an event, which leaves after the refund is committed."""
        metrics.levels[metrics.STREAMS_OPEN] += 1
        try:
            async with charged as call:
                streamed.begin_in(self.config.settings.stream_begin_s)
                failure = await self._stream(call, plan, streamed)
        except MynaError as error:
            if not streamed.begun:
                raise
            _fail(streamed, charged.details, error)
        except asyncio.CancelledError:  # the process stops
            if streamed.begun:
                streamed.fail(CallAbandoned())
            raise
        else:
            if failure is None:
                streamed.end()
            else:
                _fail(streamed, charged.details, failure)
        finally:
            metrics.levels[metrics.STREAMS_OPEN] -= 1
            streamed.stop()

    async def _stream(self, call: Call, plan: RelayPlan, streamed: StreamedAnswer) -> MynaError | None:
        """Passes on the answer, all but its last events, and keeps the call. Returns why a call is kept whose
        answer is not complete."""

        async def attempt(channel: Channel, left_s: float) -> bytes:
            answer_max_bytes = self.channel_client.settings.answer_max_bytes
            stream = ChannelStream(streamed, plan, channel, answer_max_bytes=answer_max_bytes)
            try:
                return await stream.run(self.channel_client.http_client, left_s)
            finally:
                stream.note(call.details)

        try:
            last = await self._first(call, plan, attempt)
        except ClientLeft:
            if not streamed.sent:
                raise ClientDisconnected from None
            left = streamed.out.disconnected
            why = ClientDisconnected if left else StreamUnread
            await call.keep("", reason=why.__name__)
            return None if left else StreamUnread()
        except UpstreamFailed as failed:
            cause = failed.__cause__
            if not streamed.sent or not isinstance(cause, FailedAttempt):
                raise
            reason = REASONS.get(cause.kind, "the channel broke its stream")
            if self.config.settings.broken_stream != KEPT_SETTING:
                raise StreamFailed(reason, kept=False) from cause
            failure = StreamFailed(reason, kept=True)
            streamed.failure_event = streamed.shape.failed(failure)
            copy = streamed.complete(streamed.failure_event)
            await call.keep(copy, reason=StreamFailed.__name__)
            return failure
        if streamed.out.disconnected and not streamed.sent and not streamed.stores:
            raise ClientDisconnected
        await plan.store_answer(call.account_id, last)
        await call.keep(streamed.complete(last))
        return None


def _fail(streamed: StreamedAnswer, details: RequestDetails, error: MynaError) -> None:
    """Ends the stream with an event about the error, which the access log has too."""
    details.failed(error)
    streamed.fail(error)

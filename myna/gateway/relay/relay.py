"""Use case: a call that channels answer, of /v1 or /openai/v1. Plan, charge, channel, keep or refund; a call
that is to be spoken is a call of speech.

A stream is kept once its answer is complete, before the last events leave, and when the client leaves after
a part of the answer was sent. It is refunded where nothing was sent. Where the channel fails after a part was
sent, the site setting `broken_stream` decides. The client's disconnect ends the request to the channel,
unless the call is of /v1, or has an idempotency key, whose retry gets the whole answer.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final, Protocol

from myna.accounts.keys import UnverifiedCaller
from myna.billing.ledger import Call, Ledger
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
from myna.gateway.relay.plan import RelayPlan
from myna.gateway.relay.streaming import EVENTS, HEADERS, ChannelStream, ClientLeft, StreamedAnswer
from myna.http.client import IdleTimedOut, TimedOut
from myna.http.exchange import ResponseStream
from myna.http.request import SMALL_BODY_BYTES, read_answer
from myna.http.responses import Response
from myna.lib.telemetry import metrics
from myna.lib.telemetry.requests import RequestDetails
from myna.speech.synthesize import SpokenPlan, Synthesizer
from myna.store.batch import Replayed


class Client(Protocol):
    """What is needed of the client's request."""

    def stream(self) -> ResponseStream:
        """The response as a stream, of which nothing is sent yet. Called once."""

    async def disconnected(self) -> None:
        """Returns when the client has disconnected."""


Headers = Callable[[RequestDetails], Mapping[str, str]]
REASONS: Final = {
    TimedOut.__name__: "it took longer than a stream may",
    IdleTimedOut.__name__: "the channel was silent for too long",
}
"""Why a stream is incomplete, by the kind of its failure."""


@dataclass(frozen=True, slots=True, eq=False)
class Relay:
    """Relays calls for one process. `headers` makes those of an answer to a charged call."""

    channel_client: ChannelClient
    ledger: Ledger
    config: ConfigCache
    synthesizer: Synthesizer
    headers: Headers

    async def answer(
        self,
        caller: UnverifiedCaller,
        plan: Callable[[Slot], Awaitable[RelayPlan | SpokenPlan]],
        client: Client,
    ) -> Response | ResponseStream:
        """Answers a request. `plan` is called again if the configuration was stale. Raises MynaError."""
        with Slot() as slot:
            outcome = await self.ledger.charge_plan(caller, partial(plan, slot))
            if isinstance(outcome, Replayed):
                return self._sent(outcome.answer, caller.details, client)
            charged, planned = outcome
            # Nothing may fail before the call's block: no sweep refunds a call that this process has open.
            if isinstance(planned, SpokenPlan):
                return self._sent(await self._speak(charged, planned, client), caller.details, client)
        if planned.request.streams:
            return await self._stream_answer(charged, planned, client.stream())
        async with charged as call:
            answering = self.channel_client.first_answer(
                planned.channels,
                partial(self._request, call, planned),
                asker=call,
                kind=planned.route.kind,
                adapt=planned.adapt,
            )
            if call.repeatable or not planned.request.endpoint.ends_with_client:
                answer = await answering
            else:
                answer = await unless_left(client.stream(), answering)
            await planned.ended(call, answer)
            await call.keep(answer.decode(errors="replace") if call.repeatable else "")
            return Response(answer, headers=self.headers(call.details))

    def _sent(self, answer: str, details: RequestDetails, client: Client) -> Response | ResponseStream:
        """A whole answer: one JSON object, or the events of a stream."""
        if answer.startswith("{"):
            return Response(answer.encode(), headers=self.headers(details))
        out = client.stream()
        out.start({**HEADERS, **self.headers(details)}, EVENTS)
        out.write(answer.encode())
        out.end()
        return out

    async def _speak(self, charged: Call, plan: SpokenPlan, client: Client) -> str:
        """The answer with the audio's URL. Waits for the task if a node speaks."""
        async with charged as call:
            spoken = await self.synthesizer.deliver(call, plan, client.disconnected)
        if spoken is not None:
            return spoken
        return plan.filled(call.task_id, await self.synthesizer.ended(call, plan.speech))

    async def _request(self, call: Call, plan: RelayPlan, channel: Channel, left_s: float) -> bytes:
        """The whole answer, made from a channel's. Raises FailedAttempt."""
        if channel.url == PARROT:
            return plan.parrot(channel)
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
        if (size := len(answer.body)) <= SMALL_BODY_BYTES:
            return plan.answer_of(channel, answer.body)
        return await read_answer(partial(plan.answer_of, channel, answer.body), size, call.account_id)

    async def _stream_answer(self, charged: Call, plan: RelayPlan, out: ResponseStream) -> ResponseStream:
        """Sends the answer and ends the call. Raises MynaError while nothing was sent; an error after that is
        an event, which leaves after the refund is committed."""
        shape = plan.shape(self.channel_client.settings.answer_max_bytes)
        headers = partial(self.headers, charged.details)
        streamed = StreamedAnswer(out, shape, headers, stores=charged.repeatable)
        metrics.levels[metrics.STREAMS_OPEN] += 1
        try:
            async with charged as call:
                streamed.begin_in(self.config.settings.stream_begin_s)
                failure = await self._relay_events(call, plan, streamed)
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
        return out

    async def _relay_events(self, call: Call, plan: RelayPlan, streamed: StreamedAnswer) -> MynaError | None:
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
            last = await self.channel_client.first_answer(
                plan.channels, attempt, asker=call, kind=plan.route.kind, adapt=plan.adapt
            )
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
            if self.config.settings.broken_stream != "keep":
                raise StreamFailed(reason, kept=False) from cause
            failure = StreamFailed(reason, kept=True)
            streamed.failure_event = streamed.shape.error_event(failure)
            copy = streamed.complete(streamed.failure_event)
            await call.keep(copy, reason=StreamFailed.__name__)
            return failure
        if streamed.out.disconnected and not streamed.sent and not streamed.stores:
            raise ClientDisconnected
        await plan.ended(call, last)
        await call.keep(streamed.complete(last))
        return None


async def unless_left(out: ResponseStream, work: Awaitable[bytes]) -> bytes:
    """The result of the work, which ends when the client of the response, of which nothing is sent yet,
    disconnects. Raises ClientDisconnected."""
    try:
        async with asyncio.timeout(None) as limit:
            out.on_disconnect = lambda: limit.reschedule(0)
            if out.disconnected:
                limit.reschedule(0)
            return await work
    except TimeoutError:
        raise ClientDisconnected from None
    finally:
        out.on_disconnect = None


def _fail(streamed: StreamedAnswer, details: RequestDetails, error: MynaError) -> None:
    """Ends the stream with an event about the error, which the access log has too."""
    details.failed(error)
    streamed.fail(error)

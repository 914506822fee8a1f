"""Spans that a receiver of OTLP gets from a running service."""

from collections.abc import Iterator
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

from tests.conformance.caller import make_caller
from tests.rig.calls import call
from tests.rig.http_server import Exchange, LoopbackServer
from tests.rig.service import ServiceMaker
from tests.rig.upstream import Upstream

TRACE, ABOVE = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
PROTOBUF = "application/x-protobuf"


class Receiver(LoopbackServer):
    """Takes OTLP over HTTP, as protobuf."""

    def __init__(self) -> None:
        super().__init__()
        self.received: list[bytes] = []

    def answer(self, exchange: Exchange) -> None:
        body = exchange.body()
        if exchange.path == "/v1/traces" and exchange.headers["content-type"] == PROTOBUF:
            self.received.append(body)
        exchange.send(200, ExportTraceServiceResponse().SerializeToString(), PROTOBUF)

    def spans(self, trace: str) -> dict[str, Span]:
        """The spans of a trace by name, in the order of their beginnings. A call that was planned by an older
        configuration is charged again."""
        found = [
            span
            for body in self.received
            for resource in ExportTraceServiceRequest.FromString(body).resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
            if span.trace_id.hex() == trace
        ]
        return {span.name: span for span in sorted(found, key=lambda span: span.start_time_unix_nano)}


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver() as server:
        yield server


def attributes(span: Span) -> dict[str, Any]:
    return {one.key: getattr(one.value, one.value.WhichOneof("value")) for one in span.attributes}


def test_a_call_is_a_trace_of_its_charge_attempts_speech_and_commit(
    make_service: ServiceMaker, upstream: Upstream, receiver: Receiver
) -> None:
    env = {"OTEL_EXPORTER_OTLP_ENDPOINT": receiver.root}
    service = make_service(chat_url=upstream.url, chat_key=upstream.key, speech="espeak", env=env).start()
    caller = make_caller(service)
    said, request = "0123456789 never in a span", {"model": "svc-chat", "messages": []}
    request["messages"] = [{"role": "user", "content": said}]
    url = f"{service.root_url}/openai/v1/chat/completions"
    headers = {"X-Request-Id": "traced", "traceparent": f"00-{TRACE}-{ABOVE}-01"}
    assert call("POST", url, key=caller.key.plain, data=request, headers=headers).status == 200
    sent = upstream.requests[-1].headers["traceparent"].split("-")
    spoken, failed = ({"traceparent": f"00-{digit * 32}-{ABOVE}-01"} for digit in "12")
    assert caller.speak(said, spoken).status == 200
    upstream.behave("status:500")
    assert caller.chat(said, failed).status == 500
    service.stop()

    found = receiver.spans(TRACE)
    assert list(found) == ["POST /openai/v1/chat/completions", "charge", "chat svc-chat", "commit"]
    whole, charge, attempt, commit = found.values()
    assert whole.parent_span_id.hex() == ABOVE
    assert {span.parent_span_id for span in (charge, attempt, commit)} == {whole.span_id}
    assert (sent[1], sent[2]) == (TRACE, attempt.span_id.hex())
    about = attributes(whole)
    assert (about["myna.request_id"], about["myna.channel"]) == ("traced", "default")
    assert (about["http.route"], about["http.response.status_code"]) == ("/openai/v1/chat/completions", 200)
    told = attributes(attempt)
    assert (told["gen_ai.operation.name"], told["gen_ai.request.model"]) == ("chat", "svc-chat")
    assert about["gen_ai.usage.input_tokens"] == told["gen_ai.usage.input_tokens"] > 0
    assert (told["server.address"], attempt.kind) == ("127.0.0.1", Span.SPAN_KIND_CLIENT)

    assert list(receiver.spans("1" * 32)) == ["POST /v1/tts", "charge", "speech tts-1", "commit"]
    whole, _, attempt, _ = receiver.spans("2" * 32).values()
    assert attributes(attempt)["error.type"] == "Status500"
    assert {span.status.code for span in (whole, attempt)} == {Status.STATUS_CODE_ERROR}
    for secret in (said, caller.key.plain, upstream.key):
        assert not any(secret.encode() in body for body in receiver.received)

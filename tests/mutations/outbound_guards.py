"""The guards of the HTTP client: no caller gets the answer to another caller's request."""

from tests.mutations.guards import guard

CONNECTION = "myna/http_client/connection.py"
IDLE = "myna/http_client/idle.py"
ANSWERS = "tests/http_client/test_answers.py::test_"
POOL = "tests/http_client/test_pool.py::test_"

OF_OUTBOUND = (
    guard(
        "the socket is checked for unread bytes before a request is sent",
        CONNECTION,
        "(events := self._poller.poll(0))",
        "(events := list[tuple[int, int]]())",
        ANSWERS + "bytes_received_before_the_call_are_not_its_answer[asyncio-whole]",
    ),
    guard(
        "a connection that received an answer is used",
        CONNECTION,
        "        self._transport.used = True\n",
        "",
        ANSWERS + "bytes_received_before_the_request_is_sent_are_not_its_answer[asyncio-whole]",
    ),
    guard(
        "bytes read before the request is sent are not its answer",
        CONNECTION,
        "self._future.done() or self._transport.unsent:",
        "self._future.done():",
        POOL + "bytes_parsed_before_the_request_is_sent_are_not_its_answer[asyncio]",
    ),
    guard(
        "two answers in one read are rejected",
        CONNECTION,
        "if self._transport.used:",
        "if False:",
        ANSWERS + "two_answers_in_one_read_of_a_reused_connection_are_rejected[asyncio]",
        error="Failed",
    ),
    guard(
        "a connection waits before its next call",
        IDLE,
        "if now < connection.idle_since + self._reuse_after_s:",
        "if False:",
        ANSWERS + "a_connection_waits_before_its_next_call[asyncio]",
    ),
    guard(
        "an origin that sent unexpected bytes is used without keep-alive",
        IDLE,
        " or now < self._distrusted.get(connection.origin, 0.0):",
        ":",
        ANSWERS + "an_origin_that_sent_unexpected_bytes_is_used_without_keep_alive[asyncio]",
    ),
)

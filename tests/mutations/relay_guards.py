"""The guards of relayed calls: when a stream is kept or refunded, and what its client is told."""

from tests.mutations.guards import guard

RELAY = "myna/relay/relay.py"
STREAMING = "myna/relay/streaming.py"
EVENTS = "myna/relay/events.py"
ANSWERS = "myna/relay/answers.py"
PLAN = "myna/relay/plan.py"
STREAMS = "tests/conformance/test_streams.py::test_"
GOOD = STREAMS + "every_good_stream_ends_with_done_and_is_kept"
BREAKS = STREAMS + "a_stream_that_breaks_ends_with_an_error_and_is_refunded_or_kept"
ODD = "tests/conformance/test_odd_answers.py::test_"
CASES = "tests/relay/test_events.py::test_"

OF_THE_RELAY = (
    guard(
        "a complete stream is kept",
        RELAY,
        "await call.keep(streamed.complete(last))",
        "streamed.complete(last)",
        GOOD + "[sqlite-no-done-None]",
    ),
    guard(
        "a stream's last event waits for the keep",
        RELAY,
        "            last = await self._first(call, plan, attempt)\n",
        "            last = await self._first(call, plan, attempt)\n            streamed.send(last)\n",
        "tests/faults/test_streams.py::test_the_end_of_a_stream_waits_for_the_commit_of_its_keep",
    ),
    guard(
        "a stream that breaks is refunded",
        RELAY,
        "            if not kept:\n",
        "            if False:\n",
        BREAKS + "[sqlite-refund-error-later]",
    ),
    guard(
        "nothing sent, nothing kept",
        RELAY,
        "            if not streamed.out.sent:\n",
        "            if False:\n",
        STREAMS
        + "a_client_that_leaves_before_the_first_event_is_refunded_and_ends_the_upstream_request[sqlite]",
        "TimeoutError",
    ),
    guard(
        "a client that leaves later pays",
        RELAY,
        'await call.keep("", reason=why.__name__)',
        "raise ClientDisconnected from None",
        STREAMS + "a_client_that_leaves_later_is_charged_and_ends_the_upstream_request[sqlite]",
        "TimeoutError",
    ),
    guard(
        "a broken stream is kept if the site says so",
        RELAY,
        "self._config.settings.broken_stream == KEPT_SETTING and streamed.out.sent",
        "False",
        BREAKS + "[sqlite-keep-error-later]",
    ),
    guard(
        "a broken stream that is kept has a reason",
        RELAY,
        "await call.keep(copy, reason=StreamFailed.__name__)",
        "await call.keep(copy)",
        BREAKS + "[sqlite-keep-error-later]",
    ),
    guard(
        "a client that leaves ends the request upstream",
        STREAMING,
        "            out.on_disconnect = self._end_now\n",
        "            pass\n",
        STREAMS + "a_client_that_leaves_later_is_charged_and_ends_the_upstream_request[sqlite]",
        "TimeoutError",
    ),
    guard(
        "an incomplete stream has no end",
        STREAMING,
        "(self.failure_event or self.shape.failed(error)))\n        self.out.abort()",
        "(self.failure_event or self.shape.failed(error)))\n        self.out.end()",
        BREAKS + "[sqlite-refund-error-later]",
    ),
    guard(
        "an answer without a reason to finish is incomplete",
        EVENTS,
        "        if not self.finished:\n",
        "        if False:\n",
        BREAKS + "[sqlite-refund-no-end]",
    ),
    guard(
        "each of several choices must finish",
        STREAMING,
        "choices=self._plan.choices",
        "choices=1",
        ODD + "each_of_several_choices_must_finish[sqlite]",
    ),
    guard(
        "the last event of a response waits for the keep",
        EVENTS,
        'self.done, self.last = True, event + b"\\n\\n"\n            return b""',
        'self.done = True\n            return event + b"\\n\\n"',
        CASES + "the_last_event_of_a_response_is_left_for_last[10-response.completed-True-True]",
    ),
    guard(
        "an answer that reports an error is refunded",
        ANSWERS,
        "        if reports:\n",
        "        if False:\n",
        ODD + "an_answer_without_a_choice_fails[sqlite-error-choices-False]",
    ),
    guard(
        "comments do not begin an answer",
        EVENTS,
        'if self.begun and not at_end else b""',
        'if True else b""',
        CASES + "a_good_stream_leaves_whole_however_it_arrives[comments]",
    ),
    guard(
        "n answers cost n times",
        PLAN,
        "units=min(route.units * choices, N_MAX_UNITS),",
        "units=route.units,",
        STREAMS + "n_answers_cost_n_times[sqlite]",
    ),
)

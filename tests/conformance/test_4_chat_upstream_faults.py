"""POST /chat/completions when the upstream fails: an error without details of the upstream, and a refund."""

import re
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.conformance.caller import COPY_WAIT_S, DELIVERED, REFUNDED, Caller, check_error
from tests.conformance.conftest import CALL_DEADLINE_S, CallerMaker
from tests.rig.calls import call
from tests.rig.upstream import Upstream
from tests.rig.waiting import wait_until

FAILURES = [
    *(f"status:{status}" for status in (400, 401, 402, 403, 404, 408, 413, 422, 429, 500, 502, 503, 504)),
    "redirect",
    "close",
    "cut",
    "garbage",
    "broken",
    "list",
    "not-chat",
    "no-choices",
    "wrong-types",
]


@pytest.mark.parametrize("fault", FAILURES)
def test_a_failing_upstream_is_500_and_refunded(caller: Caller, chat_upstream: Upstream, fault: str) -> None:
    before = caller.stats()
    check_error(caller.chat(f"fault={fault}"), 500, "upstream_error")
    assert caller.stats() - before == REFUNDED
    assert chat_upstream.requests


@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        ("status:503", "Status503"),
        ("close", "ConnectionBroken"),
        ("broken", "NoCompletion"),
        ("no-choices", "NoChoices"),
        ("empty", "EmptyAnswer"),
    ],
)
def test_upstream_failures_are_counted_by_kind(
    caller: Caller, chat_upstream: Upstream, fault: str, kind: str
) -> None:
    def counted() -> float:
        metrics = call("GET", f"{caller.service.root_url}/metrics").body.decode()
        found = re.findall(
            rf'^myna_upstream_failures_total{{.*fault="{kind}"}} (\S+)$', metrics, re.MULTILINE
        )
        return sum(map(float, found))

    before = counted()
    check_error(caller.chat(f"fault={fault}"), 500, "upstream_error")
    wait_until(lambda: counted() > before, COPY_WAIT_S, "the copy of the metrics is a new one")


def test_a_redirect_is_not_followed(caller: Caller, chat_upstream: Upstream) -> None:
    check_error(caller.chat("fault=redirect"), 500, "upstream_error")
    assert chat_upstream.trapped == 0


@pytest.mark.parametrize("fault", ["empty", "null", "surrogate"])
def test_a_questionable_answer_is_charged_exactly_if_delivered(caller: Caller, fault: str) -> None:
    before = caller.stats()
    answer = caller.chat(f"fault={fault}")
    assert answer.status in (200, 500)
    if answer.status == 200:
        assert type(answer.json["choices"][0]["message"]["content"]) is str
        assert caller.stats() - before == DELIVERED
    else:
        check_error(answer, 500, "upstream_error")
        assert caller.stats() - before == REFUNDED


def test_an_oversized_answer_is_aborted_early(caller: Caller, chat_upstream: Upstream) -> None:
    before = caller.stats()
    check_error(caller.chat("fault=oversized"), 500, "upstream_error")
    assert caller.stats() - before == REFUNDED
    wait_until(lambda: chat_upstream.abandoned == 1, 60, "the connection to the upstream is closed")


def test_hanging_and_slow_upstreams_end_at_the_deadline_and_leave_no_open_call(
    new_caller: CallerMaker, chat_upstream: Upstream
) -> None:
    caller = new_caller()
    with ThreadPoolExecutor(4) as pool:
        asked = [pool.submit(caller.chat, f"fault={fault}") for fault in ("hang", "drip", "hang", "drip")]
        for answer in asked:
            check_error(answer.result(CALL_DEADLINE_S + 60), 500, "upstream_error")
    stats = caller.stats()
    assert (stats.calls, stats.cost, stats.ok_calls) == (4, 0, 0)
    wait_until(lambda: chat_upstream.abandoned == 4, 60, "the connection to the upstream is closed")


def test_the_next_call_after_a_failure_is_served(caller: Caller) -> None:
    check_error(caller.chat("fault=close"), 500, "upstream_error")
    assert caller.chat("hello").status == 200

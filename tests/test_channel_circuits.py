"""When the circuit of a channel opens and closes, and which channels are probed."""

import logging

import pytest
from prometheus_client import REGISTRY

from myna.channel_circuits import FAILURES_MAX, OPERATOR, PROBE_EVERY_S, CircuitChange, Circuits

COOLDOWN_S = 30.0
ALICE = 7


class Clock:
    """A clock that the test moves; in seconds."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def circuits(clock: Clock) -> Circuits:
    return Circuits(COOLDOWN_S, clock)


def fail(circuits: Circuits, name: str, accounts: int = FAILURES_MAX) -> None:
    for account_id in range(1, accounts + 1):
        circuits.failed(name, "why", account_id, "chat")


def fail_for_alice(circuits: Circuits, name: str, times: int = FAILURES_MAX) -> None:
    for _ in range(times):
        circuits.failed(name, "why", ALICE, "embeddings")


def test_a_circuit_opens_after_failures_of_so_many_accounts_in_a_row(circuits: Circuits) -> None:
    fail(circuits, "a", FAILURES_MAX - 1)
    assert not circuits.open("a")
    circuits.failed("a", "why", FAILURES_MAX)
    assert circuits.open("a") and not circuits.open("b")


def test_a_success_resets_the_failures(circuits: Circuits) -> None:
    fail(circuits, "a", FAILURES_MAX - 1)
    circuits.succeeded("a")
    fail(circuits, "a", FAILURES_MAX - 1)
    assert not circuits.open("a") and not circuits.to_probe()


def test_one_account_opens_no_circuit_but_has_the_channel_probed(circuits: Circuits) -> None:
    fail_for_alice(circuits, "a", FAILURES_MAX - 1)
    assert circuits.to_probe() == {}
    fail_for_alice(circuits, "a", 20 * FAILURES_MAX)
    assert not circuits.open("a")
    assert circuits.to_probe() == {"a": "embeddings"}
    circuits.failed("a", "the probe failed", OPERATOR)
    assert circuits.open("a")


def test_a_probe_that_succeeds_clears_the_channel(circuits: Circuits) -> None:
    fail_for_alice(circuits, "a")
    assert circuits.to_probe() == {"a": "embeddings"}
    circuits.succeeded("a")
    fail_for_alice(circuits, "a", FAILURES_MAX - 1)
    assert circuits.to_probe() == {}


def test_a_channel_is_not_probed_again_at_once(circuits: Circuits, clock: Clock) -> None:
    """Such as one whose probe found no place."""
    fail_for_alice(circuits, "a")
    assert circuits.to_probe()
    clock.now += PROBE_EVERY_S - 0.1
    assert not circuits.to_probe()
    clock.now += 0.2
    assert circuits.to_probe()


def test_a_failing_request_of_the_operators_is_one_among_others(circuits: Circuits) -> None:
    """Such as a test with a wrong model. As many as open a circuit are proof."""
    for _ in range(FAILURES_MAX - 1):
        circuits.failed("a", "why", OPERATOR)
        assert not circuits.open("a")
    circuits.failed("a", "why", OPERATOR)
    assert circuits.open("a")


def test_after_the_cooldown_a_failure_is_probed_and_a_success_closes(
    circuits: Circuits, clock: Clock
) -> None:
    """One account can't keep a circuit open either."""
    fail(circuits, "a")
    clock.now += COOLDOWN_S - 0.01
    assert circuits.open("a")
    clock.now += 0.02
    assert not circuits.open("a") and circuits.to_probe() == {}
    fail_for_alice(circuits, "a", 1)
    assert not circuits.open("a") and circuits.to_probe() == {"a": "embeddings"}
    circuits.failed("a", "the probe failed", OPERATOR)
    assert circuits.open("a")
    clock.now += COOLDOWN_S
    circuits.succeeded("a")
    fail(circuits, "a", FAILURES_MAX - 1)
    assert not circuits.open("a")


def test_opening_and_closing_of_a_circuit_is_logged_counted_and_notified(
    clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    changes: list[CircuitChange] = []
    circuits = Circuits(COOLDOWN_S, clock, changes.append)
    fail(circuits, "logged")
    circuits.failed("logged", "one that was under way", ALICE)
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "circuit of channel 'logged' is open for 30 s: why" in caplog.text
    labels = {"channel": "logged"}
    assert REGISTRY.get_sample_value("myna_channel_circuit_open", labels) == 1
    assert REGISTRY.get_sample_value("myna_channel_circuit_opened_total", labels) == 1

    clock.now += COOLDOWN_S
    circuits.succeeded("logged")
    circuits.succeeded("logged")
    assert [record.levelname for record in caplog.records] == ["WARNING", "INFO"]
    assert REGISTRY.get_sample_value("myna_channel_circuit_open", labels) == 0
    assert changes == [CircuitChange("logged", COOLDOWN_S, "why"), CircuitChange("logged", 0.0, "")]

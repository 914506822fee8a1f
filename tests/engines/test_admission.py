"""Admission control: which requests get a slot of an engine, decided before the charge."""

import pytest

from myna.engines.pool.admission import ACCOUNT_FULL, ENGINE_FULL, LONG_S, TOO_LATE, TOO_LONG, Admission, Slot

SOON_S = 60.0


def admission_of(processes: int = 2, queue_max: int = 100, account_max: int = 10) -> Admission:
    return Admission(processes, queue_max, account_max)


def acquire(admission: Admission, account: str, count: int, sound_s: float = 1.0) -> list[Slot]:
    slots = [Slot() for _ in range(count)]
    assert [slot.acquire(admission, account, sound_s, SOON_S) for slot in slots] == [""] * count
    return slots


def test_an_account_at_its_limit_is_refused_alone() -> None:
    admission = admission_of()
    acquire(admission, "greedy", 10)
    assert admission.refusal("greedy", 1.0, SOON_S) == ACCOUNT_FULL
    assert admission.refusal("other", 1.0, SOON_S) == ""


def test_a_request_that_is_planned_again_has_one_slot() -> None:
    admission = admission_of(account_max=1)
    with Slot() as slot:
        assert [slot.acquire(admission, "a", 1.0, SOON_S) for _ in range(3)] == ["", "", ""]
    acquire(admission, "a", 1)


def test_a_full_engine_refuses_all_accounts() -> None:
    admission = admission_of(queue_max=1, account_max=2)
    acquire(admission, "a", 2)
    acquire(admission, "b", 1)
    assert admission.refusal("c", 1.0, SOON_S) == ENGINE_FULL


def test_a_text_that_would_miss_its_deadline_is_refused() -> None:
    admission = admission_of()
    admission.measured(60.0, 600.0)  # by one tenth: from now on a second of sound takes one of work
    acquire(admission, "a", 10, sound_s=8.0)
    assert admission.refusal("b", 1.0, within_s=10.0) == ""
    assert admission.refusal("b", 6.0, within_s=10.0) == TOO_LATE


def test_texts_ahead_are_estimated_by_fair_queueing() -> None:
    admission = admission_of(processes=1)
    admission.measured(60.0, 594.6)  # a second of sound takes one of work
    acquire(admission, "a", 5, sound_s=4.0)
    assert admission.refusal("b", 3.0, within_s=10.0) == ""  # one of a's goes first: 4 + 3 of 7.5
    assert admission.refusal("a", 3.0, within_s=20.0) == TOO_LATE  # all five go first: 20 + 3 of 15


def test_where_pieces_are_spoken_in_turns_a_short_text_waits_for_a_turn_not_for_a_long_text() -> None:
    admission = Admission(2, 100, 10, pace=1.0, processes_per_text=2, turn_s=6.0)
    for account in ("a", "b"):
        admission.acquire(account, 370.0)
    assert admission.refusal("c", 4.0, within_s=16.0) == ""  # 4 and a turn of each, by two processes, then 2
    assert admission.refusal("c", 4.0, within_s=15.9) == TOO_LATE
    assert admission.refusal("c", 100.0, within_s=208.1) == ""  # as much of each, and 50
    assert admission.refusal("c", 100.0, within_s=207.9) == TOO_LATE
    admission.acquire("c", 10.0)
    assert admission.refusal("c", 4.0, within_s=36.1) == ""  # its own text too: 20 + 5 + 2
    assert admission.refusal("c", 4.0, within_s=35.9) == TOO_LATE


def test_a_share_of_an_engine_waits_for_its_own_texts_alone_and_speaks_with_all_processes() -> None:
    share = Admission(4, 40, 40, pace=1.0, processes_per_text=4).share(2)
    assert share.refusal("a", 40.0, within_s=10.1) == ""
    assert share.refusal("a", 40.0, within_s=9.9) == TOO_LONG
    acquire(share, "a", 12)
    assert share.refusal("a", 1.0, SOON_S) == ACCOUNT_FULL  # a text for each of 2 processes, and 10 of 20
    acquire(share, "b", 10)
    assert share.refusal("c", 1.0, SOON_S) == ENGINE_FULL


def test_a_streamed_text_is_limited_until_it_begins_and_as_a_whole() -> None:
    admission = Admission(1, 100, 10, pace=1.0, turn_s=6.0)
    admission.acquire("a", 370.0)
    assert admission.refusal("b", 100.0, within_s=900.0, begins_s=8.1) == ""  # a turn of the other one
    assert admission.refusal("b", 100.0, within_s=900.0, begins_s=7.9) == TOO_LATE
    assert admission.retry_s("b", 100.0, within_s=900.0, begins_s=4.0) == pytest.approx(370.0)
    assert admission.refusal("b", 100.0, within_s=200.0, begins_s=8.1) == TOO_LATE


@pytest.mark.parametrize("processes_per_text", [1, 2])
def test_a_text_that_even_an_idle_engine_cannot_speak_in_time_is_refused(processes_per_text: int) -> None:
    admission = Admission(2, 100, 10, pace=1.0, processes_per_text=processes_per_text)
    possible_s = processes_per_text * SOON_S
    assert admission.refusal("a", possible_s - 1, SOON_S) == ""
    assert admission.refusal("a", possible_s + 1, SOON_S) == TOO_LONG


def test_an_idle_engine_accepts_a_possible_text_however_slow_it_was() -> None:
    admission = admission_of()
    admission.measured(60.0, 600000.0)
    assert admission.refusal("a", 100.0, SOON_S) == ""


def test_long_texts_wait_only_for_long_ones() -> None:
    admission = admission_of(processes=2)
    admission.measured(60.0, 60.0)  # a second of sound takes a tenth of one
    for _ in range(10):
        admission.acquire("a", 100.0)
    assert admission.refusal("b", LONG_S + 1, within_s=100.0) == ""
    admission.acquire("b", LONG_S + 1)
    assert admission.refusal("c", LONG_S + 1, within_s=100.0) == TOO_LATE
    assert admission.refusal("c", 1.0, within_s=100.0) == ""


@pytest.mark.parametrize(("ahead_s", "sound_s"), [(LONG_S + 1, 1.0), (LONG_S, LONG_S + 1)])
def test_on_one_process_long_and_short_texts_wait_for_each_other(ahead_s: float, sound_s: float) -> None:
    admission = admission_of(processes=1)
    admission.measured(60.0, 594.6)  # a second of sound takes one of work
    admission.acquire("a", ahead_s)
    assert admission.refusal("b", sound_s, within_s=LONG_S) == TOO_LATE


def test_a_refusal_estimates_when_to_retry() -> None:
    admission = admission_of(processes=1, queue_max=8)
    admission.measured(60.0, 594.6)  # a second of sound takes one of work
    acquire(admission, "a", 5, sound_s=4.0)
    assert admission.refusal("a", 3.0, within_s=100.0) == ACCOUNT_FULL  # a process and half of the queue
    assert admission.retry_s("a", 3.0, within_s=100.0) == pytest.approx(4.0)  # one of its texts is spoken
    acquire(admission, "b", 4, sound_s=2.0)
    assert admission.refusal("c", 3.0, within_s=100.0) == ENGINE_FULL
    assert admission.retry_s("c", 3.0, within_s=100.0) == pytest.approx(4.0 + 2.0)  # one of each
    late_s = 5 * 4.0 + 4 * 2.0 + 3.0 - 15.0
    assert admission.retry_s("a", 3.0, within_s=20.0) == pytest.approx(late_s)

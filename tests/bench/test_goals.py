"""Each goal is judged only by the figures of its run."""

from bench import contenders as who
from bench.goals import Goal, Results, all_goals
from tests.bench import measured


def everything() -> dict[str, Results]:
    return {
        "table": measured.comparison(),
        "grow-sqlite": measured.growth(),
        "speech": measured.speech(),
        "neural": measured.neural(),
        "stream": measured.streams(),
    }


def judged(part: str, **parts: Results) -> Goal:
    found = [goal for goal in all_goals(everything() | parts) if part in goal.what]
    assert len(found) == 1, [goal.what for goal in found]
    return found[0]


def test_a_ratio_that_reaches_its_goal_meets_it() -> None:
    goal = judged("SQLite: calls/s at 64 connections against the floor")
    assert (goal.figure, goal.met, goal.verdict) == ("0.7", True, "yes")


def test_a_ratio_below_its_goal_misses_it() -> None:
    goal = judged("PostgreSQL, one process")
    assert (goal.figure, goal.met, goal.verdict) == ("0.6", False, "**no**")


def test_each_database_is_compared_with_each_peer() -> None:
    against = "calls/s at 64 connections against"
    assert judged(f"PostgreSQL: {against} Portkey").figure == "10x"
    assert judged(f"SQLite: {against} Portkey").figure == "11.7x"
    assert judged(f"PostgreSQL: {against} LiteLLM").figure == "30x"
    assert judged(f"SQLite: {against} LiteLLM").met is False


def test_a_goal_without_a_measurement_is_neither_met_nor_missed() -> None:
    goal = judged("two processes against one")
    assert (goal.figure, goal.met, goal.verdict) == ("—", None, "not measured")


def test_a_goal_with_a_missing_peer_is_not_judged() -> None:
    table = measured.comparison()
    del table["medians"][who.PORTKEY_GATEWAY]
    assert judged("SQLite: calls/s at 64 connections against Portkey", table=table).met is None
    assert judged("2.5 bare commits", table=table).figure == "3.00 ms"


def test_a_call_may_take_the_floors_time_and_two_and_a_half_bare_commits() -> None:
    goal = judged("2.5 bare commits")
    assert (goal.goal, goal.figure, goal.met) == ("at most 3.00 ms", "3.00 ms (Portkey: 1.00 ms)", True)
    slow = measured.comparison()
    slow["commits"]["ms"] = 0.9
    assert judged("2.5 bare commits", table=slow).met is False


def test_growth_is_judged_at_the_largest_size_of_the_run() -> None:
    assert judged("10,000,000 rows against").figure == "0.8"
    assert judged("10,000,000 rows against").met is False
    assert judged("slowest GET").figure == "30 ms"
    assert judged("1,000,000 keys").met is True
    assert judged("one account").met is True


def test_memory_is_compared_with_that_of_the_first_minute() -> None:
    goal = judged("minutes of load")
    assert (goal.what[:30], goal.figure, goal.met) == ("memory after 10 minutes of loa", "1.1x", False)
    assert judged("idle process").figure == "50 MB"


def test_speech_is_judged_by_its_best_rate_and_chat_by_its_worst() -> None:
    assert (judged("POST /tts, 20").figure, judged("POST /tts, 20").met) == ("0.9", True)
    assert (judged("while speech").figure, judged("while speech").met) == ("3x", False)
    assert (judged("espeak-ng, streamed").figure, judged("espeak-ng, streamed").met) == ("70 ms", False)


def test_the_neural_voice_is_judged_beside_its_model() -> None:
    assert (judged("the model alone").figure, judged("the model alone").met) == ("1.1x", False)
    assert (judged("Kokoro, streamed").figure, judged("Kokoro, streamed").met) == ("60 ms", False)
    assert (judged("two clients").figure, judged("two clients").met) == ("1.8x", True)
    assert (judged("beside Kokoro").figure, judged("beside Kokoro").met) == ("1.5x", True)
    assert (judged("Kokoro process").figure, judged("Kokoro process").met) == ("420 MB", True)


def test_without_any_results_every_goal_is_still_listed() -> None:
    nothing = all_goals({})
    assert len(nothing) == len(all_goals(everything()))
    assert {goal.met for goal in nothing} == {None}

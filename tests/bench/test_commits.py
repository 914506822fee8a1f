"""The benchmark times the commits that it names."""

from pathlib import Path

from bench.commits import CommitTimes


def test_a_pair_is_a_call_that_is_charged_and_kept(tmp_path: Path) -> None:
    times = CommitTimes(tmp_path / "commits")
    took = times.round(0.5)
    assert took.ms > 0 < took.pair_ms
    assert took.commits_s > 0
    assert times._bare.execute("SELECT count(*) > 1 FROM bare").fetchall() == [(True,)]
    calls = times._filled.execute("SELECT count(*), sum(state = 1), sum(units) FROM calls").fetchall()
    assert calls == [(times._calls,) * 3]
    assert times._filled.execute("SELECT sum(ok_calls) FROM key_usage").fetchall() == [(times._calls,)]
    times.close()

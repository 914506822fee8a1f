"""The guards of the reports: every call and entry is counted once."""

from tests.mutations.guards import CHANGES, GRANTS, ROUTINES, guard

FOLD = "myna/rollup.py"
QUERIES = "myna/store/queries/rollup.py"
ROLLS = "tests/reports/test_rollup.py::test_"
REPORTS = "tests/reports/test_reports.py::test_"
ONCE = ROLLS + "a_roll_folds_the_outbox_once"
BY_HOUR = REPORTS + "usage_by_hour_is_by_key_and_rate"

OF_REPORTS = (
    guard(
        "an hour counts the calls of the outbox",
        "myna/store/queries/reports.py",
        "        *(row for row in unfolded if row.key_id and start <= row.at < end),\n",
        "",
        BY_HOUR + "[sqlite-False]",
    ),
    guard(
        "an hour counts each folded call",
        FOLD,
        "    await store.add_usage_hours(db, ends)\n",
        "",
        BY_HOUR + "[sqlite-True]",
    ),
    guard(
        "an hour has each rate",
        QUERIES,
        "found[end.account_id, end.hour, end.key_id, end.kind]",
        "found[end.account_id, end.hour, end.key_id, 1]",
        BY_HOUR + "[sqlite-True]",
    ),
    guard(
        "a day has the calls of the outbox",
        "myna/reports.py",
        "for hour in {row.at for row in waiting})",
        "for hour in ())",
        REPORTS + "a_day_that_is_written_has_its_late_calls_at_once[sqlite]",
    ),
    guard(
        "calls that were counted before an upgrade are not counted again",
        QUERIES,
        "        if not end.key_id:\n            continue\n",
        "",
        ROLLS + "ends_that_schema_24_counted_are_not_counted_again[sqlite]",
    ),
    guard(
        "a batch writes the outbox",
        CHANGES,
        "db.execute(_INSERT_OUTBOX, row)",
        "print(row)",
        ONCE + "[sqlite]",
    ),
    guard(
        "a batch writes the outbox, on PostgreSQL",
        ROUTINES,
        "IF m_keys IS NOT NULL OR cardinality(g_ns) > 0 THEN",
        "IF false THEN",
        ONCE + "[postgresql]",
    ),
    guard(
        "a grant writes the outbox",
        GRANTS,
        "INSERT INTO outbox (id, at, size, entries, ended) VALUES ($1, $2, 1, $3, '[]')",
        "SELECT $1, $2, $3",
        ONCE + "[sqlite]",
    ),
    guard(
        "units of an hour, on PostgreSQL",
        ROUTINES,
        "m_states, m_units, m_times, m_channels);",
        "m_states, m_times, m_times, m_channels);",
        BY_HOUR + "[postgresql-True]",
    ),
    guard(
        "one process folds",
        QUERIES,
        "FROM rollup_state r{db.skip_locked}",
        "FROM rollup_state r",
        ROLLS + "one_process_folds_at_a_time",
    ),
    guard(
        "a late call marks its day",
        FOLD,
        "    await store.mark_stale(db, {(days[end.hour], end.account_id) for end in ends})\n",
        "",
        ROLLS + "a_day_is_written_once_it_is_over_and_again_after_a_late_call[sqlite]",
    ),
    guard(
        "an earlier entry moves the sums after it",
        QUERIES,
        "        if base.at < min(entry.at for entry in entries):\n",
        "        if True:\n",
        ROLLS + "an_entry_with_an_earlier_time_moves_the_sums_after_it[sqlite]",
    ),
    guard(
        "calls counted by their batch are not counted again",
        "myna/store/queries/past_calls.py",
        " AND ended_at < $3",
        " AND $3 > 0",
        ROLLS + "calls_that_end_while_the_past_is_folded_count_once[sqlite]",
    ),
    guard(
        "a query of a report has a limit, on PostgreSQL",
        "myna/store/postgresql.py",
        '{"statement_timeout": str(REPORT_QUERY_MAX_MS)}',
        "{}",
        "tests/store/test_report_reads.py::test_a_query_is_stopped_at_its_limit_and_the_next_one_runs[postgresql]",
        "TimeoutError",
    ),
    guard(
        "the ledger is of one account",
        "myna/store/queries/reports.py",
        "entries WHERE account_id = $1 AND at >= $2",
        "entries WHERE $1 > 0 AND at >= $2",
        REPORTS + "the_ledger_comes_page_by_page_with_balances[sqlite-True]",
    ),
)

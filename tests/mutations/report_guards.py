"""The guards of the reports: every call and entry is counted once."""

from tests.mutations.guards import CHANGES, GRANTS, ROUTINES, guard

FOLD = "myna/rollup.py"
QUERIES = "myna/store/queries/rollup.py"
ROLLS = "tests/reports/test_rollup.py::test_"
REPORTS = "tests/reports/test_reports.py::test_"
ONCE = ROLLS + "a_roll_folds_the_outbox_once"
BY_HOUR = REPORTS + "usage_by_hour_is_by_key_and_rate"

OF_REPORTS = (
    guard("an hour counts each call", CHANGES, "    counters[0] += 1\n", "", BY_HOUR + "[sqlite-True]"),
    guard(
        "an hour has each rate",
        CHANGES,
        "self._hours.get((account_id, key_id, pays))",
        "None",
        BY_HOUR + "[sqlite-True]",
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
        "INSERT INTO outbox (id, at, size, entries, ends) VALUES ($1, $2, 1, $3, '[]')",
        "SELECT $1, $2, $3",
        ONCE + "[sqlite]",
    ),
    guard(
        "units of an hour, on PostgreSQL",
        ROUTINES,
        "units = usage_hours.units + c.units",
        "units = c.units",
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
        "    await _mark(db, zone, {(end.hour, end.account_id) for end in pending.ends})\n",
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

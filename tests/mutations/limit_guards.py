"""The guards of routes and limits of keys and accounts."""

from tests.mutations.guards import BATCH, ROUTINES, Guard, guard

ROUTES = "tests/store/test_key_routes.py::test_"
ROUTE_STORE = "myna/store/queries/routes.py"
LIMITS = "tests/store/test_limits.py::test_"
SQLITE = "myna/store/sqlite_limits.py"
MINUTE = LIMITS + "a_key_makes_the_calls_of_its_limit_in_a_minute_from_its_first"
OPEN = LIMITS + "open_calls_are_limited_until_they_end"
DAY = LIMITS + "units_of_a_day_are_limited_and_refunds_are_given_back"
LATE = LIMITS + "a_late_refund_does_not_count_in_the_next_day"
OF_SITE = LIMITS + "the_limits_of_the_site_hold_where_there_is_no_other"
AGAIN = LIMITS + "calls_that_end_after_a_limit_was_removed_are_not_open_when_it_is_set_again"
CLOCK = LIMITS + "a_clock_that_was_far_ahead_does_not_hold_a_limit"


def on_both(
    name: str, sqlite: tuple[str, str], postgresql: tuple[str, str], test: str, file: str = SQLITE
) -> tuple[Guard, Guard]:
    """The same guard on each database: what is replaced, and by what."""
    return (
        guard(f"{name}, on SQLite", file, *sqlite, f"{test}[sqlite]"),
        guard(f"{name}, on PostgreSQL", ROUTINES, *postgresql, f"{test}[postgresql]"),
    )


OF_LIMITS = (
    guard(
        "a key's routes, on SQLite",
        BATCH,
        "if key.flags & _ROUTED and not db.execute",
        "if False and not db.execute",
        ROUTES + "a_key_is_charged_only_on_its_routes[sqlite]",
    ),
    guard(
        "a key's routes, on PostgreSQL",
        ROUTINES,
        "IF c.routed = 1 AND NOT EXISTS",
        "IF false AND NOT EXISTS",
        ROUTES + "a_key_is_charged_only_on_its_routes[postgresql]",
    ),
    guard(
        "the route before a stale configuration, on SQLite",
        BATCH,
        "return ChargeRefused(RefusalReason.STALE if stale else RefusalReason.ROUTE)",
        "return ChargeRefused(RefusalReason.ROUTE)",
        ROUTES + "under_another_configuration_the_route_is_decided_again[sqlite]",
    ),
    guard(
        "the route before a stale configuration, on PostgreSQL",
        ROUTINES,
        "CASE WHEN c.version = v_version THEN 'route' ELSE 'stale' END",
        "'route'",
        ROUTES + "under_another_configuration_the_route_is_decided_again[postgresql]",
    ),
    guard(
        "a stored response of another route",
        "myna/store/queries/ledger.py",
        "WHERE k.id = $6 AND k.routed = 1 AND",
        "WHERE k.id = $6 AND k.routed = 9 AND",
        ROUTES + "a_stored_response_of_another_route_is_refused[sqlite]",
    ),
    guard(
        "a removed route leaves the keys",
        ROUTE_STORE,
        '    await db.fetch("DELETE FROM key_routes WHERE route = $1", name)\n',
        "",
        ROUTES + "a_removed_route_leaves_the_keys_that_were_limited_to_it[sqlite]",
    ),
    *on_both(
        "the calls of a minute",
        ("if limits.rpm and usage.minute_calls >= limits.rpm:", "if False:"),
        ("IF v_limit > 0 AND v_usage.minute_calls >= v_limit THEN", "IF false THEN"),
        MINUTE,
    ),
    *on_both(
        "the end of a minute",
        ("if not self.minute_ends - 2 * MINUTE_MS <= now < self.minute_ends:", "if not self.minute_ends:"),
        ("IF v_now >= v_usage.minute_ends OR", "IF v_usage.minute_ends = 0 OR"),
        MINUTE,
    ),
    *on_both(
        "a clock set back and the minute",
        ("if not self.minute_ends - 2 * MINUTE_MS <= now <", "if not now <"),
        (" OR v_now < v_usage.minute_ends - 2 * 60000 THEN", " THEN"),
        CLOCK,
    ),
    *on_both(
        "open calls",
        ("if limits.concurrent and usage.open_calls >= limits.concurrent:", "if False:"),
        ("IF v_limit > 0 AND v_usage.open_calls >= v_limit THEN", "IF false THEN"),
        OPEN,
    ),
    *on_both(
        "an ended call is not open",
        ("SET open_calls = open_calls - ?4,", "SET open_calls = open_calls - 0 * ?4,"),
        ("SET open_calls = open_calls - m.calls,", "SET open_calls = open_calls,"),
        OPEN,
    ),
    *on_both(
        "units of a day",
        ("usage.day_units + units > limits.units_per_day:", "usage.day_units > limits.units_per_day:"),
        ("v_usage.day_units + c.units > v_limit THEN", "v_usage.day_units > v_limit THEN"),
        DAY,
    ),
    *on_both(
        "the end of a day",
        ("if not self.day_ends - 2 * DAY_MS <= now < self.day_ends:", "if not self.day_ends:"),
        ("IF v_now >= v_usage.day_ends OR", "IF v_usage.day_ends = 0 OR"),
        LATE,
    ),
    guard(
        "a refund and the day, on SQLite",
        BATCH,
        "refunded = units if end.state == CallState.REFUNDED else 0",
        "refunded = 0",
        DAY + "[sqlite]",
    ),
    guard(
        "a keep and the day, on SQLite",
        BATCH,
        "refunded = units if end.state == CallState.REFUNDED else 0",
        "refunded = units",
        DAY + "[sqlite]",
    ),
    guard(
        "a refund and the day, on PostgreSQL",
        ROUTINES,
        "day_units = day_units - coalesce(m.units, 0)",
        "day_units = day_units",
        DAY + "[postgresql]",
    ),
    guard(
        "a keep and the day, on PostgreSQL",
        ROUTINES,
        "count(*) AS calls, sum(units) FILTER (WHERE state = 2) AS units\n                    FROM (",
        "count(*) AS calls, sum(units) AS units\n                    FROM (",
        DAY + "[postgresql]",
    ),
    *on_both(
        "a late refund and the next day",
        ("CASE WHEN day_from = ?3 THEN", "CASE WHEN ?3 > 0 THEN"),
        (" FILTER (WHERE e.day = current.day_from)", ""),
        LATE,
    ),
    *on_both(
        "the days of a limit rise",
        ("self.day_from = max(now, self.day_from + 1)", "self.day_from = 1"),
        ("v_usage.day_from := greatest(v_now, v_usage.day_from + 1);", "v_usage.day_from := 1;"),
        LATE,
    ),
    guard(
        "an account's limit, on SQLite",
        SQLITE,
        "rows = [(key_id, key, of_key), (0, account, of_account)]",
        "rows = [(key_id, key, of_key)]",
        LIMITS + "the_limits_of_an_account_are_shared_by_its_keys[sqlite]",
    ),
    guard(
        "an account's limit, on PostgreSQL",
        ROUTINES,
        "IN ARRAY ARRAY[c.key_id, 0] LOOP",
        "IN ARRAY ARRAY[c.key_id] LOOP",
        LIMITS + "the_limits_of_an_account_are_shared_by_its_keys[postgresql]",
    ),
    *on_both(
        "the limits of the site",
        ("rpm=defaults.rpm if self.rpm is None else self.rpm,", "rpm=self.rpm or 0,"),
        ("v_limit := coalesce(v_usage.rpm, default_limits[1], 0);", "v_limit := coalesce(v_usage.rpm, 0);"),
        OF_SITE,
    ),
    guard(
        "the limits of the site come with the charge",
        "myna/ledger.py",
        "        default_limits=default_limits,\n",
        "",
        "tests/ledger/test_limited_calls.py::test_the_limits_of_the_site_hold_from_the_next_charge[sqlite]",
        "Failed",
    ),
    guard(
        "a limited key's flag",
        "myna/store/queries/limits.py",
        "(rpm IS NOT NULL OR concurrent IS NOT NULL OR units_per_day IS NOT NULL)",
        "rpm IS NOT NULL",
        OPEN + "[sqlite]",
    ),
)

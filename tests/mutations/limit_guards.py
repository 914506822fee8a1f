"""The guards of routes and limits of keys and accounts."""

from tests.mutations.guards import BATCH, ROUTINES, guard

ROUTES = "tests/store/test_key_routes.py::test_"
ROUTE_STORE = "myna/store/queries/routes.py"

OF_LIMITS = (
    guard(
        "a key's routes, on SQLite",
        BATCH,
        "if key.routed and not db.execute",
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
)

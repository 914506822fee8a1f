"""The guards of the audit: when a range is closed, and why a breach stays found."""

from tests.mutations.guards import GRANTS, LEDGER, guard

AUDIT = "myna/audit.py"
STATE = "myna/store/queries/audit_state.py"
STEPS = "tests/store/test_audit_steps.py::test_"
ABOVE_THE_FENCE = STEPS + "a_charge_decided_under_an_older_fence_is_decided_again_above_it[sqlite]"
FOUND_LATER = STEPS + "a_change_below_the_checkpoint_is_found_by_a_full_audit_and_later_ones[sqlite]"

OF_THE_AUDIT = (
    guard("a new fence makes charges stale", STATE, "    await raise_version(db)\n", "", ABOVE_THE_FENCE),
    guard(
        "a fence in the future is raised",
        STATE,
        "    if bytes(fence) <= first:\n        return first\n    return first_of(",
        "    return first if newest else first_of(",
        STEPS + "a_fence_in_the_future_closes_calls_that_ended_since[sqlite]",
    ),
    guard("ids above the fence", LEDGER, "new_id(config.closed_before)", "new_id()", ABOVE_THE_FENCE),
    guard(
        "grant ids above the fence",
        GRANTS,
        "new_id(bytes(closed_before))",
        "new_id()",
        STEPS + "a_grant_is_never_below_the_fence[sqlite]",
    ),
    guard(
        "writers_ended waits for the last writer",
        "myna/store/postgresql.py",
        "SELECT pg_current_xact_id()::text::bigint",
        "SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint",
        STEPS + "writers_ended_waits_for_the_last_writer",
    ),
    guard(
        "a range is closed after its writers ended",
        AUDIT,
        "if not await db.writers_ended():",
        "if False:",
        STEPS + "a_range_with_an_open_transaction_is_not_closed",
    ),
    guard(
        "a range with an open call is not closed",
        STATE,
        "min(fence, bytes(rows[0][0])) if",
        "fence if",
        STEPS + "calls_older_than_the_oldest_open_call_are_below_the_checkpoint[sqlite]",
    ),
    guard(
        "a range with a breach is not closed",
        AUDIT,
        "if self._advancing and whole:",
        "if self._advancing:",
        STEPS + "a_breach_is_found_by_every_audit_until_it_is_repaired[sqlite]",
    ),
    guard(
        "no range after a breach is closed",
        AUDIT,
        "                self._advancing = False\n",
        "",
        STEPS + "a_breach_is_found_by_every_audit_until_it_is_repaired[sqlite]",
        "RuntimeError",
    ),
    guard(
        "a range is added to the checkpoint once",
        STATE,
        " WHERE closed_until = $1 RETURNING 1",
        " WHERE $1 = $1 RETURNING 1",
        STEPS + "a_range_is_summed_up_once[sqlite]",
    ),
    guard(
        "a breach found by a full audit deletes the checkpoint",
        AUDIT,
        "audit_state.drop)",
        "audit_state.state)",
        FOUND_LATER,
    ),
    guard(
        "a full audit compares the checkpoint", AUDIT, "self._breaches += differences", "pass", FOUND_LATER
    ),
    guard(
        "files of a committed restore are kept",
        "myna/backup/backup.py",
        "if staged.moving and await",
        "if not staged.moving and await",
        "tests/store/test_restore.py::test_a_restore_whose_commit_reply_was_lost_is_complete[drop_reply_to]",
        "ConnectionDoesNotExistError",
    ),
    guard(
        "one process audits at a time",
        STATE,
        " AND (claimed_until < now_ms() OR claimed_until > now_ms() + $2) RETURNING 1",
        " AND $2 > 0 RETURNING 1",
        STEPS + "only_one_of_several_processes_audits[sqlite]",
    ),
)

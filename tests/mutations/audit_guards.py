"""The guards of the audit: what makes a range final, and what keeps a breach from being forgotten."""

from tests.mutations.guards import GRANTS, LEDGER, guard

AUDIT = "myna/audit.py"
STATE = "myna/store/queries/audit_state.py"
STEPS = "tests/store/test_audit_steps.py::test_"
ABOVE_THE_FENCE = STEPS + "a_charge_decided_under_an_older_fence_is_decided_again_above_it[sqlite]"
NOT_FORGOTTEN = STEPS + "a_change_below_the_checkpoint_is_found_by_a_full_audit_and_later_ones[sqlite]"

OF_THE_AUDIT = (
    guard("a fence makes charges stale", STATE, "    await changed(db)\n", "", ABOVE_THE_FENCE),
    guard(
        "a fence in the future rises",
        STATE,
        "    if bytes(fence) <= first:\n        return first\n    return first_of(",
        "    return first if newest else first_of(",
        STEPS + "a_fence_in_the_future_closes_calls_that_ended_since[sqlite]",
    ),
    guard("ids above the fence", LEDGER, "new_id(closed_before)", "new_id()", ABOVE_THE_FENCE),
    guard(
        "grants above the fence",
        GRANTS,
        "new_id(bytes(closed_before))",
        "new_id()",
        STEPS + "a_grant_is_never_below_the_fence[sqlite]",
    ),
    guard(
        "the last writer is waited for",
        "myna/store/postgresql.py",
        "SELECT pg_current_xact_id()::text::bigint",
        "SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint",
        STEPS + "writers_ended_waits_for_the_last_writer",
    ),
    guard(
        "writers end first",
        AUDIT,
        "if not await db.writers_ended():",
        "if False:",
        STEPS + "a_range_with_an_open_transaction_is_not_closed",
    ),
    guard(
        "open calls are not closed",
        STATE,
        "min(fence, bytes(rows[0][0])) if",
        "fence if",
        STEPS + "calls_older_than_the_oldest_open_call_are_below_the_checkpoint[sqlite]",
    ),
    guard(
        "a range with a breach stays open",
        AUDIT,
        "if self._advancing and whole:",
        "if self._advancing:",
        STEPS + "a_breach_is_found_by_every_audit_until_it_is_repaired[sqlite]",
    ),
    guard(
        "nothing behind a breach is closed",
        AUDIT,
        "                self._advancing = False\n",
        "",
        STEPS + "a_breach_is_found_by_every_audit_until_it_is_repaired[sqlite]",
        "RuntimeError",
    ),
    guard(
        "a range is summed up once",
        STATE,
        " WHERE closed_until = $1 RETURNING 1",
        " WHERE $1 = $1 RETURNING 1",
        STEPS + "a_range_is_summed_up_once[sqlite]",
    ),
    guard(
        "what a full audit finds stays found", AUDIT, "audit_state.drop)", "audit_state.state)", NOT_FORGOTTEN
    ),
    guard("checkpoints are compared", AUDIT, "self._breaches += differences", "pass", NOT_FORGOTTEN),
    guard(
        "files of a restore that was committed stay",
        "myna/backup/backup.py",
        "if staged.moving and await",
        "if not staged.moving and await",
        "tests/store/test_restore.py::test_a_restore_whose_commit_reply_was_lost_is_complete[lose_answer_to]",
        "ConnectionDoesNotExistError",
    ),
    guard(
        "one process audits",
        STATE,
        " AND (claimed_until < now_ms() OR claimed_until > now_ms() + $2) RETURNING 1",
        " AND $2 > 0 RETURNING 1",
        STEPS + "only_one_of_several_processes_audits[sqlite]",
    ),
)

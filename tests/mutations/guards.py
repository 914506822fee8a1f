"""The guards of the money path: the source change that removes each, and the test that must fail then.

Where the test fails with another error than an assertion, `error` names it: a second guard raised it. Where
two guards check the same, both are removed together.
"""

from msgspec import Struct

BATCH = "myna/store/sqlite_batch.py"
CHANGES = "myna/store/sqlite_changes.py"
LITE = "myna/store/migrations/0001_start.sqlite.sql"
PG = "myna/store/migrations/0001_start.postgresql.sql"
ROUTINES = "myna/store/migrations/routines.postgresql.sql"
COMMITS = "myna/store/group_commit.py"
LEDGER = "myna/ledger.py"
GRANTS = "myna/store/queries/ledger.py"

CHARGE = "tests/store/test_charge.py::test_"
BATCHES = "tests/store/test_batch.py::test_"
RETRIES = "tests/store/test_idempotency_keys.py::test_"
TASKS = "tests/store/test_task_rows.py::test_"
SCHEMA = "tests/store/test_guards.py::test_"
GROUP = "tests/store/test_group_commit.py::test_"
LOCKS = "tests/store/test_locks.py::test_"
OUTAGES = "tests/store/test_outages_postgresql.py::test_"
ADMIT = "tests/ledger/test_admit.py::test_"
ENDS = "tests/ledger/test_ends.py::test_"
IN_DOUBT = "tests/ledger/test_in_doubt.py::test_"
ASSERTION = "AssertionError"


class Change(Struct, frozen=True):
    """Replaces `old`, which occurs exactly once in `file`, by `new`."""

    file: str
    old: str
    new: str


class Guard(Struct, frozen=True):
    """With the `changes` applied, `test` (a pytest node id) fails with an exception named `error`."""

    name: str
    changes: tuple[Change, ...]
    test: str
    error: str = ASSERTION


def guard(name: str, file: str, old: str, new: str, test: str, error: str = ASSERTION) -> Guard:
    return Guard(name, (Change(file, old, new),), test, error)


PYTHON_UNITS = Change(BATCH, "if key.account.balance < charge.units:", "if False:")
STATEMENT_UNITS = Change(
    CHANGES, "WHERE accounts.id = e.column1 AND balance + e.column2 >= 0", "WHERE accounts.id = e.column1"
)
STATEMENT_UNITS_ONE = Change(CHANGES, "WHERE id = ?1 AND balance + ?2 >= 0", "WHERE id = ?1")
UNITS_COUNT = Change(CHANGES, 'raise AssertionError("a balance would be below zero")', "pass")
OPEN_READ = Change(BATCH, "\nWHERE c.{OPEN}", "")
OPEN_WRITTEN = Change(BATCH, "id IN carray(?1) AND {OPEN}", "id IN carray(?1)")
OPEN_WRITTEN_ONE = Change(BATCH, "WHERE id = ?1 AND {OPEN}", "WHERE id = ?1")
OPEN_COUNT = Change(BATCH, 'raise AssertionError("a call would end twice")', "pass")
LITE_CHECK = Change(LITE, "DEFAULT 0 CHECK (balance >= 0)", "DEFAULT 0")
PG_CHECK = Change(PG, "DEFAULT 0 CHECK (balance >= 0)", "DEFAULT 0")
PG_UNITS = Change(ROUTINES, "IF remaining < c.units THEN", "IF false THEN")
GRANT_UNITS = Change(GRANTS, " AND balance + $2 >= 0", "")

ON_SQLITE = (
    Guard(
        "units",
        (PYTHON_UNITS,),
        CHARGE + "a_charge_over_the_balance_is_refused[sqlite]",
    ),
    Guard(
        "units, statement and check",
        (PYTHON_UNITS, STATEMENT_UNITS_ONE, LITE_CHECK),
        SCHEMA + "no_batch_makes_a_balance_negative[sqlite-1]",
    ),
    Guard(
        "units, statement of many and check",
        (PYTHON_UNITS, STATEMENT_UNITS, LITE_CHECK),
        SCHEMA + "no_batch_makes_a_balance_negative[sqlite-2]",
    ),
    Guard("check", (LITE_CHECK,), SCHEMA + "no_statement_makes_a_balance_negative[sqlite]", "Failed"),
    Guard(
        "units, and the count of balances",
        (PYTHON_UNITS, UNITS_COUNT),
        CHARGE + "a_charge_over_the_balance_is_refused[sqlite]",
    ),
    Guard("open", (OPEN_READ,), BATCHES + "a_call_ends_once[sqlite-False]"),
    Guard("open, statement", (OPEN_READ, OPEN_WRITTEN_ONE), BATCHES + "a_call_ends_once[sqlite-False]"),
    Guard(
        "open, statement of many", (OPEN_READ, OPEN_WRITTEN), BATCHES + "calls_of_one_batch_end_once[sqlite]"
    ),
    Guard("open, count", (OPEN_READ, OPEN_COUNT), BATCHES + "a_call_ends_once[sqlite-False]"),
    guard(
        "first end",
        BATCH,
        "first.setdefault(end.call_id, end)",
        "first[end.call_id] = end",
        BATCHES + "the_first_of_a_keep_and_a_refund_in_one_batch_wins[sqlite-True]",
    ),
    guard(
        "fingerprint",
        BATCH,
        "if fingerprint != charge.idempotency_key.fingerprint:",
        "if False:",
        RETRIES + "another_request_under_the_same_key_is_refused_open_or_kept[sqlite]",
    ),
    guard(
        "expiry of the idempotency key",
        BATCH,
        "oldest = now - IDEMPOTENCY_KEY_LIFE_MS",
        "oldest = 0",
        RETRIES + "an_idempotency_key_expires_after_a_day[sqlite]",
    ),
    guard(
        "idempotency key",
        BATCH,
        "db.execute(_INSERT_KEY, ",
        "print(_INSERT_KEY, ",
        RETRIES + "retries_in_one_batch_are_charged_once[sqlite]",
    ),
    guard(
        "a refund deletes the idempotency key",
        BATCH,
        "db.execute(_DELETE_KEYS, ",
        "print(_DELETE_KEYS, ",
        RETRIES + "a_refund_deletes_the_idempotency_key[sqlite]",
    ),
    guard("revoked", BATCH, "k.revoked_at = 0 AND", "", CHARGE + "a_revoked_key_is_refused[sqlite]"),
    guard(
        "expired",
        BATCH,
        "(k.expires_at = 0 OR k.expires_at > ?3)",
        "?3 > 0",
        CHARGE + "a_key_is_refused_from_the_moment_it_expires[sqlite]",
    ),
    guard(
        "disabled",
        BATCH,
        "AND a.disabled_at = 0",
        "",
        CHARGE + "the_key_of_a_disabled_account_is_refused_until_it_is_enabled[sqlite]",
    ),
    guard(
        "scope",
        BATCH,
        " or not key.scopes & charge.scope",
        "",
        CHARGE + "a_key_without_the_endpoints_scope_is_refused[sqlite]",
    ),
    guard(
        "rate",
        BATCH,
        "if not key.scopes & charge.pays:",
        "if False:",
        CHARGE + "a_rate_without_its_scope_is_refused[sqlite]",
    ),
    guard(
        "rate before a stored response, in the batch",
        BATCH,
        "if not key.scopes & charge.pays:",
        "if not charge.idempotency_key and not key.scopes & charge.pays:",
        ADMIT + "a_retry_of_speech_requires_the_scope[sqlite]",
        "Failed",
    ),
    guard(
        "version",
        BATCH,
        "    if stale:\n",
        "    if False:\n",
        CHARGE + "a_charge_under_another_configuration_is_stale[sqlite]",
    ),
    guard(
        "ledger entry of a refund",
        BATCH,
        "changes.add_entry(end.call_id, EntryKind.REFUND, account_id, key_id, units)",
        "changes.balances[account_id] += units",
        BATCHES + "a_refund_returns_the_units_of_its_call[sqlite]",
    ),
    guard(
        "cost counter of a refund",
        CHANGES,
        "            counters[2] += units\n",
        "        counters[2] += units\n",
        BATCHES + "a_refund_returns_the_units_of_its_call[sqlite]",
    ),
    guard(
        "running sum",
        BATCH,
        "account.balance -= charge.units",
        "pass",
        CHARGE + "the_last_unit_can_be_spent[sqlite]",
    ),
    guard(
        "keys of an account share its balance",
        BATCH,
        "account = accounts.get(account_id)",
        "account = None",
        BATCHES + "charges_of_one_batch_never_exceed_the_balance[sqlite]",
    ),
    guard(
        "a charge sent again counts once",
        BATCH,
        "if key and key.done:",
        "if False:",
        BATCHES + "a_batch_that_is_sent_again_counts_once[sqlite]",
        "ConstraintError",
    ),
    guard(
        "the reason of a call",
        BATCH,
        "channel = ?4, reason = ?5",
        "channel = ?4, reason = trim(?5, ?5)",
        BATCHES + "each_call_of_a_batch_has_its_reason[sqlite]",
    ),
    guard(
        "calls of other reasons end separately",
        BATCH,
        "groups[end.state, end.channel, end.reason]",
        'groups[end.state, end.channel, ""]',
        BATCHES + "each_call_of_a_batch_has_its_reason[sqlite]",
    ),
    guard(
        "a refund fails the task",
        BATCH,
        "db.execute(_FAIL_TASKS, ",
        "print(_FAIL_TASKS, ",
        TASKS + "a_refund_fails_the_task_with_its_reason[sqlite-1]",
    ),
    Guard(
        "a completed task is final",
        (
            OPEN_READ,
            OPEN_WRITTEN_ONE,
            Change(BATCH, "WHERE call_id = ?1 AND {PROCESSING}", "WHERE call_id = ?1"),
            Change(LITE, "WHEN old.status IN (2, 3)", "WHEN old.status IN (9)"),
        ),
        TASKS + "two_completions_of_one_task_keep_one_audio[sqlite-False]",
    ),
    guard(
        "ended task",
        LITE,
        "WHEN old.status IN (2, 3)",
        "WHEN old.status IN (3)",
        SCHEMA + "an_ended_task_never_changes_its_status[sqlite-0-True]",
        "Failed",
    ),
    guard(
        "failed task",
        LITE,
        "WHEN old.status IN (2, 3)",
        "WHEN old.status IN (2)",
        SCHEMA + "an_ended_task_never_changes_its_status[sqlite-0-False]",
        "Failed",
    ),
    guard(
        "ledger entries are not updated",
        LITE,
        "BEFORE UPDATE ON ledger",
        "BEFORE UPDATE OF kind ON ledger",
        SCHEMA + "the_ledger_is_append_only[sqlite-UPDATE ledger SET units = 0]",
        "Failed",
    ),
    guard(
        "ledger entries are not deleted",
        LITE,
        "BEFORE DELETE ON ledger",
        "BEFORE DELETE ON ledger WHEN false",
        SCHEMA + "the_ledger_is_append_only[sqlite-DELETE FROM ledger]",
        "Failed",
    ),
)

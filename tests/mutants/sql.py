"""Guards in SQL, which mutmut leaves alone: without each of them a test must fail.

Only guards of units, keys, tasks and isolation. A test is named by its folder and words of its name.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
CHECK = ("CHECK (balance >= 0)", "", "store: no_statement_makes_a_balance_negative")
ENDED = "store: an_ended_task_never_changes_its_status"
APPEND = "store: the_ledger_is_append_only"
# By file of `myna/store`: what is in it once, what replaces it, and the tests that must fail then.
GUARDS = {
    "migrations/0026_baseline.sql": (CHECK,),
    "migrations/0026_baseline.sqlite.sql": (
        ("ON tasks WHEN old.status IN (2, 3)", "ON tasks WHEN old.status = 9", ENDED),
        ("BEFORE UPDATE ON ledger", "BEFORE UPDATE OF kind ON ledger", APPEND),
        ("BEFORE DELETE ON ledger", "BEFORE DELETE ON ledger WHEN false", APPEND),
    ),
    "migrations/0026_baseline.postgresql.sql": (
        (
            "WHEN (old.status IN (2, 3)) EXECUTE FUNCTION task_has_ended",
            "WHEN (old.status = 9) EXECUTE FUNCTION task_has_ended",
            ENDED,
        ),
        ("BEFORE UPDATE OR DELETE ON ledger", "BEFORE DELETE ON ledger", APPEND),
        ("BEFORE TRUNCATE ON ledger", "AFTER INSERT ON channels", "store: ledger_cannot_be_truncated"),
    ),
    "migrations/routines.postgresql.sql": (
        ("IF remaining < c.units THEN", "IF false THEN", "store: a_charge_over_the_balance"),
        ("remaining := remaining - c.units;", "", "store: the_last_unit_can_be_spent"),
        ("AND calls.state + 0 = 0 AND", "AND", "store: a_call_ends_once"),
        ("WHERE state = 2 GROUP BY account_id\n", "WHERE false GROUP BY 1\n", "store: a_refund_returns"),
        ("IF c.done IS NOT NULL THEN", "IF false THEN", "store: a_batch_that_is_sent_again"),
        ("earlier.fingerprint <> decode(c.fingerprint, 'hex')", "false", "store: another_request_under"),
        (" AND created_at > v_now - reservation_life", "", "store: an_idempotency_key_expires"),
        ("WHERE m.state = 2 AND call_id = m.id;", "WHERE false;", "store: deletes_the_idempotency_key"),
        ("k.revoked_at = 0 AND", "", "store: a_revoked_key_is_refused"),
        ("(k.expires_at = 0 OR k.expires_at > v_now) AND", "", "store: from_the_moment_it_expires"),
        ("AND a.disabled_at = 0 AS usable", "AS usable", "store: the_key_of_a_disabled_account"),
        (" OR c.scopes & c.scope = 0", "", "store: a_key_without_the_endpoints_scope"),
        ("IF c.scopes & c.pays = 0 THEN ", "IF false THEN ", "store: a_rate_without_its_scope"),
        ("IF c.routed = 1 AND NOT", "IF false AND NOT", "store: a_key_is_charged_only_on_its_routes"),
        ("AND used + c.units <= units ", "", "store: a_key_is_charged_up_to_its_cap"),
        ("v_usage.minute_calls >= v_limit THEN", "false THEN", "store: a_key_makes_the_calls_of_its_limit"),
        ("v_usage.open_calls >= v_limit THEN", "false THEN", "store: open_calls_are_limited"),
        ("v_usage.day_units + c.units > v_limit THEN", "false THEN", "store: units_of_a_day"),
    ),
    "sqlite_batch.py": (
        ("\nWHERE c.{OPEN}", "", "store: a_call_ends_once"),
        ("k.revoked_at = 0 AND", "", "store: a_revoked_key_is_refused"),
        ("(k.expires_at = 0 OR k.expires_at > ?3)", "?3 > 0", "store: from_the_moment_it_expires"),
        ("AND a.disabled_at = 0", "", "store: the_key_of_a_disabled_account"),
    ),
    "sqlite_changes.py": (
        ("AND used + ?2 <= units ", "", "store: a_key_is_charged_up_to_its_cap"),
        (" AND starts_at = ?2", " AND starts_at >= ?2", "store: a_late_refund_changes_nothing"),
        ("open_calls - ?4,", "open_calls - 0 * ?4,", "store: open_calls_are_limited"),
    ),
    "queries/ledger.py": (
        (" AND balance + $2 >= 0", "", "store: a_negative_grant_is_limited"),
        ("WHERE {OPEN} AND deadline < now_ms()", "WHERE {OPEN}", "ledger: the_sweep_refunds_calls"),
        (" AND c.pays & $5 <> 0", " AND $5 >= 0", "ledger: a_retry_of_speech"),
        ("UPDATE codes SET uses_left = uses_left WHERE hash = $1 RETURNING 1",
         "SELECT 1 FROM codes WHERE hash = $1", "store: fifty_accounts_at_once"),
    ),
    "queries/farm/queue.py": (
        ("{PROCESSING} AND epoch = $2", "{PROCESSING} AND $2 > 0", "tasks: is_stale and epoch"),
        ("= $3 AND node_id = $4 AND lease", "<> $4 AND node_id = $4 AND lease", "tasks: is_stale and token"),
        ("3 AND node_id = $4 AND lease_until", "3 AND $4 > 0 AND lease_until", "tasks: is_stale and node"),
        ("4 AND lease_until > now_ms()", "4", "tasks: is_stale and expired"),
        ("{COMPLETED} AND epoch = $2", "{COMPLETED} AND $2 > 0", "tasks: a_completion_with_another_lease"),
        (" AND {QUEUED}{in_time}{db", "{in_time}{db", "tasks: a_job_leased_after_selection"),
    ),
    "queries/farm/able.py": (
        ("v.node_id = {node_id} AND v.voice_id = {task}.voice_id", "v.node_id = {node_id}",
         "tasks: test_model"),
    ),
    "queries/clones.py": (
        ("c.account_id = $1 AND c.{READY} ORDER", "$1 > 0 AND c.{READY} ORDER", "tasks: only_by_its_account"),
    ),
    "queries/sign_in.py": (
        ('links WHERE token_hash = $1 AND expires_at > now_ms()"', 'links WHERE token_hash = $1"',
         "sign_in: a_link_expires"),
        ("last_step < $2", "$2 > 0", "sign_in: a_code_is_used_once"),
        ("a.email <> '' AND lower(a.email)", "lower(a.email)", "sign_in: accounts_without_an_email_address"),
        ("WHERE issuer = $1", "WHERE length($1) > 0", "sign_in: the_identity_is_issuer"),
    ),
    "queries/sessions.py": (
        (" AND a.disabled_at = 0", "", "sign_in: an_account_that_is_disabled"),
        ("AND s.pending = $2 AND", "AND $2 >= 0 AND", "sign_in: a_sign_in_waits_for_a_code"),
    ),
}  # fmt: skip


def survivors() -> list[str]:
    """Removes each guard in a copy and runs its tests. Names the guards without which they do not fail."""
    found = []
    with tempfile.TemporaryDirectory() as folder:
        for name in ("myna", "tests", "demo"):
            shutil.copytree(ROOT / name, Path(folder) / name)
        shutil.copy(ROOT / "pyproject.toml", folder)
        for file, guards in GUARDS.items():
            path = Path(folder) / "myna/store" / file
            text = path.read_text(encoding="utf-8")
            for old, new, test in guards:
                assert text.count(old) == 1, f"{file} has {old!r} {text.count(old)} times"
                path.write_text(text.replace(old, new), encoding="utf-8")
                where, words = test.split(": ")
                if not fails(folder, f"tests/{where}", words):
                    found.append(f"{file}: without {old!r} nothing fails: {test}")
            path.write_text(text, encoding="utf-8")
    return found


def fails(folder: str, tests: str, words: str) -> bool:
    """Whether a test fails in a folder; one that could not begin does not count."""
    ended = subprocess.run(
        [sys.executable, "-m", "pytest", "-x", "-p", "no:cacheprovider", "-k", words, tests],
        cwd=folder, env=os.environ | {"PYTHONPATH": folder}, check=False, capture_output=True, text=True,
    )  # fmt: skip
    return re.search(r"^FAILED", ended.stdout, re.MULTILINE) is not None

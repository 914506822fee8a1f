"""The audit finds every rule that a test breaks by hand, and no breach after ordinary use."""

import contextlib
import hashlib
from pathlib import Path

from myna.accounts import caps
from myna.accounts.caps import Cap, Period
from myna.actions.accounts import AddAccount, LimitAccount
from myna.actions.codes import AddCodes, RedeemCode
from myna.actions.keys import LimitKey, SetKeyCap
from myna.billing import audit, rollup
from myna.store.batch import Audio, TaskStatus
from myna.store.database import Transaction
from myna.store.files.named_files import AudioStore
from myna.store.files.storage import Folder
from myna.store.queries.audit import (
    BALANCE_RULE,
    RANGE_RULES,
    RULES_OF_NOW,
    SHOWN_MAX,
    SWEEP_GRACE_MS,
    USAGE_RULE,
    Breach,
)
from myna.store.queries.audit_reports import (
    DAYS_RULE,
    ENTRIES_RULE,
    HOURS_RULE,
    RUNNING_RULE,
    SITE_RULE,
    SUMS_RULE,
)
from myna.wire.farm import TRIES_MAX
from tests.rig.actors import perform
from tests.store.books import AUDIO, Books, broken_rules, keep_of, refund_of, speech


class Undone(Exception):
    """Ends a transaction with a rollback."""


async def make_entries(books: Books) -> None:
    """One call of each state: open, kept, refunded, and with tasks; queued and leased jobs of nodes, and
    cloned voices of each status."""
    customer = await books.customer(units=100)
    for task in (None, speech()):
        await books.opened(customer, task=task)
        await books.end(
            keep_of(await books.opened(customer, units=2, task=task), None, AUDIO if task else None)
        )
        await books.end(refund_of(await books.opened(customer, units=3, task=task)))
    for _ in range(2):
        await books.opened(customer, task=speech(TaskStatus.QUEUED))
    await books.sql(
        f"UPDATE tasks SET {LEASED}, lease_until = deadline WHERE id = (SELECT max(id) FROM tasks)", b"t" * 32
    )
    for voice_id in ("queued", "leased", "ready", "failed"):
        await books.sql(CLONE, voice_id, customer.account_id, b"s" * 32)
    await books.sql(f"UPDATE clones SET {LEASED}, lease_until = 1 WHERE voice_id = 'leased'", b"t" * 32)
    await books.sql(
        "UPDATE clones SET status = 2, preview = 'a.mp3', preview_sha256 = $1 WHERE voice_id = 'ready'",
        b"s" * 32,
    )
    await books.sql("UPDATE clones SET status = 3, reason = 'too loud' WHERE voice_id = 'failed'")
    capped = await books.second_key(customer)
    await perform(books.db, SetKeyCap(key=str(capped.key_id), cap=str(Cap(9, Period.DAY))))
    await caps.renew(books.db, capped.key_hash, "UTC")
    await books.opened(capped, units=2)
    await books.end(refund_of(await books.opened(capped, units=3)))
    limited = await books.second_key(customer)
    await perform(books.db, LimitKey(key=str(limited.key_id), rpm="9"))
    await perform(books.db, LimitAccount(name=customer.name, units_per_day="50"))
    await books.opened(limited, units=2)
    await books.end(refund_of(await books.opened(limited, units=3)))
    await books.end(keep_of(await books.opened(limited, units=4)))
    await perform(books.db, AddAccount(name="unlimited"))
    made = await perform(books.db, AddCodes(units=5, count=2, uses=2))
    await perform(books.db, RedeemCode(account=customer.name, code=made.codes[0]))
    await rollup.roll(books.db, "UTC")
    assert await books.audit() == []


LEASED = "status = 1, node_id = 7, epoch = 1, tries = 1, token_hash = $1"
CLONE = """INSERT INTO clones (voice_id, account_id, name, language, transcript, sample, sample_bytes,
    sample_sha256, sample_ms, consent_by, consent_text, consent_at, created_at)
    VALUES ($1, $2, '小明', 'zh', '你好', 'a.wav', 8, $3, 3500, 'its owner', 'yes', 1, 1)"""
REPORTS_RULES = (ENTRIES_RULE, SUMS_RULE, RUNNING_RULE, HOURS_RULE, DAYS_RULE, SITE_RULE)
ENTRY = "INSERT INTO ledger (call_id, kind, account_id, units, created_at)"

BALANCE = "an account's balance is the sum"
ENTRYS_ACCOUNT = "a ledger entry belongs to an account"
ONE_CHARGE = "a call has exactly one charge"
ENTRYS_CALL = "a charge and a refund belong to a call"
ONE_REFUND = "a refunded call has exactly one refund"
NO_REFUND = "an open or kept call has no refund"
OVERDUE = "no call is open past its deadline"
TASKS_CALL = "a task's call is open while it runs"
AUDIO_NAMED = "a completed task has audio"
QUEUED_OR_LOCAL = "a queued or local task has no lease"
IS_LEASED = "a leased task has a token"
CLONE_QUEUED = "a queued clone has no lease"
CLONE_LEASED = "a leased clone has a token"
DEADLINE = "a queued or leased task has its call's deadline"
TRIES = "a task was leased for each of its tries"
CLONE_TRIES = "a clone was leased for each of its tries"
KEYS_CALL = "a call is of a key and its account"
PREVIEW = "a ready voice has a preview"
REASON = "a failed voice has a reason"
COUNTERS = "a key counts its calls"
CAP_USED = "a cap has used what was charged"
CAPPED = "a capped key has a cap"
OPEN_COUNTED = "limits count the open calls"
DAY_COUNTED = "limits count what was charged"
LIMITED = "a limited key or account has limits"
CODE_USES = "a code has the uses of its batch"

BREAKS = {
    "UPDATE accounts SET balance = balance + 1": BALANCE,
    f"{ENTRY} VALUES ($1, 2, 1, 1, 1)": BALANCE,
    f"{ENTRY} VALUES ($1, 2, 99, 1, 1)": ENTRYS_ACCOUNT,
    "UPDATE calls SET units = units + 1 WHERE state = 1": ONE_CHARGE,
    "UPDATE calls SET account_id = 99 WHERE state = 1": ONE_CHARGE,
    "DELETE FROM calls WHERE state = 1": ENTRYS_CALL,
    "UPDATE calls SET state = 2 WHERE state = 1": ONE_REFUND,
    "UPDATE calls SET state = 1 WHERE state = 2": NO_REFUND,
    "UPDATE calls SET state = 0 WHERE state = 2": NO_REFUND,
    f"UPDATE calls SET deadline = now_ms() - {SWEEP_GRACE_MS + 1000} WHERE state = 0": OVERDUE,
    "UPDATE tasks SET status = 3 WHERE status = 1": TASKS_CALL,
    "UPDATE calls SET state = 1 WHERE id IN (SELECT call_id FROM tasks WHERE status = 0)": TASKS_CALL,
    "UPDATE calls SET state = 0 WHERE id IN (SELECT call_id FROM tasks WHERE status = 2)": TASKS_CALL,
    "DELETE FROM calls WHERE state = 0 AND id IN (SELECT call_id FROM tasks)": TASKS_CALL,
    "UPDATE tasks SET audio = '' WHERE status = 2": AUDIO_NAMED,
    "UPDATE tasks SET audio = 'x' WHERE status = 3": AUDIO_NAMED,
    "UPDATE tasks SET token_hash = $1 WHERE status = 1 AND lease_until = 0": QUEUED_OR_LOCAL,
    "UPDATE tasks SET lease_until = deadline + 1 WHERE lease_until > 0": IS_LEASED,
    "UPDATE tasks SET deadline = 0 WHERE lease_until > 0": IS_LEASED,
    "UPDATE clones SET lease_until = 0 WHERE status = 1": CLONE_LEASED,
    "UPDATE calls SET key_id = 99 WHERE state = 1": KEYS_CALL,
    "UPDATE calls SET account_id = 98 WHERE state = 1": KEYS_CALL,
    "UPDATE tasks SET deadline = deadline + 1 WHERE status = 0": DEADLINE,
    "UPDATE tasks SET deadline = 0 WHERE status = 0": DEADLINE,
    "UPDATE tasks SET deadline = deadline + 1 WHERE lease_until > 0": DEADLINE,
    "UPDATE tasks SET deadline = 1 WHERE status = 1 AND lease_until = 0": DEADLINE,
    "UPDATE tasks SET lease_until = 0 WHERE status = 1": DEADLINE,
    "UPDATE clones SET preview = 'b.mp3' WHERE status = 1": PREVIEW,
    "UPDATE clones SET preview = '' WHERE status = 2": PREVIEW,
    "UPDATE clones SET preview_sha256 = $1 WHERE status = 2": PREVIEW,
    "UPDATE clones SET reason = '' WHERE status = 3": REASON,
    "UPDATE clones SET reason = 'too loud' WHERE status = 2": REASON,
    "UPDATE key_usage SET calls = calls + 1": COUNTERS,
    "UPDATE key_usage SET ok_calls = ok_calls + 1": COUNTERS,
    "UPDATE key_usage SET cost = cost - 1": COUNTERS,
    "UPDATE codes SET uses_left = uses_left + 1": CODE_USES,
    "DELETE FROM redemptions": CODE_USES,
    "DELETE FROM entries WHERE kind = 1": ENTRIES_RULE,
    "UPDATE entries SET units = units - 1 WHERE kind = 0": ENTRIES_RULE,
    "UPDATE entries SET balance = balance + 1": SUMS_RULE,
    "UPDATE entries SET number = number + 1 WHERE kind = 2": RUNNING_RULE,
    "UPDATE usage_hours SET calls = calls + 1": HOURS_RULE,
    "UPDATE usage_hours SET ok_calls = ok_calls - 1": HOURS_RULE,
    "UPDATE usage_hours SET units = units + 1": HOURS_RULE,
    "DELETE FROM usage_hours": HOURS_RULE,
    "INSERT INTO usage_days SELECT account_id, 1, key_id, kind, 1, 0, 0, 0 FROM usage_hours": DAYS_RULE,
    "UPDATE site_hours SET calls = calls + 1": SITE_RULE,
    "UPDATE site_hours SET ok_calls = ok_calls + 1": SITE_RULE,
    "DELETE FROM site_hours": SITE_RULE,
    "UPDATE key_caps SET used = used + 1": CAP_USED,
    "UPDATE calls SET cap_from = 0": CAP_USED,
    "UPDATE keys SET capped = 1": CAPPED,
    "UPDATE limits SET open_calls = open_calls + 1": OPEN_COUNTED,
    "UPDATE limits SET open_calls = 0 WHERE key_id = 0": OPEN_COUNTED,
    "UPDATE calls SET key_day = 0": OPEN_COUNTED,
    "DELETE FROM limits": OPEN_COUNTED,
    "UPDATE limits SET day_units = day_units + 1 WHERE key_id > 0": DAY_COUNTED,
    "UPDATE limits SET day_units = day_units + 1 WHERE key_id = 0": DAY_COUNTED,
    "UPDATE calls SET account_day = account_day + 1 WHERE account_day > 0": DAY_COUNTED,
    "UPDATE keys SET limited = 1": LIMITED,
    "UPDATE accounts SET limited = 1": LIMITED,
}
OF_QUEUED = {
    "token_hash = $1": QUEUED_OR_LOCAL,
    "lease_until = 1": QUEUED_OR_LOCAL,
    f"epoch = {TRIES_MAX}, tries = {TRIES_MAX}": TRIES,
    "tries = -1": TRIES,
}
OF_LEASES = {
    "node_id = 0": IS_LEASED,
    "token_hash = $1": IS_LEASED,
    "epoch = 0": IS_LEASED,
    "tries = 0": IS_LEASED,
    "tries = 2": TRIES,
    f"epoch = 9, tries = {TRIES_MAX + 1}": TRIES,
}
OF_CLONES = {QUEUED_OR_LOCAL: CLONE_QUEUED, IS_LEASED: CLONE_LEASED, TRIES: CLONE_TRIES}
BREAKS["UPDATE tasks SET node_id = 7 WHERE status = 1 AND lease_until = 0"] = QUEUED_OR_LOCAL
for change, rule in OF_QUEUED.items():
    BREAKS[f"UPDATE tasks SET {change} WHERE status = 0"] = rule
    BREAKS[f"UPDATE clones SET {change} WHERE status = 0"] = OF_CLONES[rule]
for change, rule in OF_LEASES.items():
    BREAKS[f"UPDATE tasks SET {change} WHERE status = 1 AND lease_until > 0"] = rule
    BREAKS[f"UPDATE clones SET {change} WHERE status = 1 AND lease_until > 0"] = OF_CLONES[rule]


def test_every_rule_of_the_audit_has_a_breach() -> None:
    rules = {*RANGE_RULES, *RULES_OF_NOW, BALANCE_RULE, USAGE_RULE, *REPORTS_RULES}
    assert {rule for rule in rules if rule.startswith(tuple(BREAKS.values()))} == rules


async def broken_by(books: Books, statement: str) -> list[Breach]:
    """What an audit finds after the statement, which is then undone."""
    found = []

    async def work(connection: Transaction) -> None:
        await connection.fetch(statement, *([b"n" * 16] if "$1" in statement else []))
        found.extend(await broken_rules(connection))
        raise Undone

    with contextlib.suppress(Undone):
        await books.db.transaction(work)
    return found


async def test_the_audit_finds_each_broken_rule(books: Books) -> None:
    await make_entries(books)
    unseen = {}
    for statement, rule in BREAKS.items():
        rules = [breach.rule for breach in await broken_by(books, statement)]
        if not any(found.startswith(rule) for found in rules):
            unseen[statement] = rules
    assert unseen == {}


async def test_a_breach_counts_all_rows_and_shows_the_first(books: Books) -> None:
    for _ in range(SHOWN_MAX + 5):
        await books.customer(units=1)
    (breach,) = await broken_by(books, "UPDATE accounts SET balance = 2 WHERE balance = 1")
    assert breach.count == SHOWN_MAX + 5
    assert len(breach.examples) == SHOWN_MAX
    assert breach.examples[0].endswith(" 2 1")


async def test_missing_short_and_altered_audio_is_found(books: Books, tmp_path: Path) -> None:
    store = AudioStore(Folder(tmp_path))
    customer = await books.customer()
    paths = []
    for _ in range(4):
        name, path = store.new()
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"sound")
        audio = Audio(name, 5, hashlib.sha256(b"sound").digest())
        await books.end(keep_of(await books.opened(customer, task=speech()), None, audio))
        paths.append(path)
    assert (await audit.run(books.db, store, full=True, hash_audio=True)).breaches == []

    paths[0].unlink()
    paths[1].write_bytes(b"soun")
    paths[2].write_bytes(b"noise")

    (quick,) = (await audit.run(books.db, store, full=True)).breaches
    (whole,) = (await audit.run(books.db, store, full=True, hash_audio=True)).breaches
    assert (quick.rule, quick.count, whole.count) == (audit.AUDIO_RULE, 2, 3)
    await books.sql("UPDATE tasks SET audio_removed_at = 1")
    assert (await audit.run(books.db, store, full=True, hash_audio=True)).breaches == []

"""The migrations of an older database to the current schema keep its rows."""

from pathlib import Path

import apsw
import pytest

from myna.store import migrate as migrations
from myna.store.migrate import migrate, newest, schema_version
from myna.store.sqlite import Sqlite, SqliteConnection, clock_ms
from tests.store.books import AUDIO, Books, Customer, charge_of, keep_of

pytestmark = pytest.mark.anyio

WITH_LISTS = 3
"""The last schema of SQLite whose checks are lists."""
CHECKED = ("calls", "ledger", "tasks")
OLD_CUSTOMER = (
    "INSERT INTO accounts (name, email, operator, created_at) VALUES ('ada', '', 0, 1)",
    "INSERT INTO keys (account_id, name, hash, masked, scopes, created_at, expires_at)"
    " VALUES (1, 'a key', CAST('kkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkk' AS BLOB), '', 7, 1, 0)",
)
OLD_ROWS = (
    "UPDATE accounts SET balance = 5 WHERE id = $2 AND $1 <> '' AND $3 > 0",
    "INSERT INTO ledger (call_id, kind, account_id, units, created_at)"
    " SELECT substr($1, 2), 2, id, 5, 1 FROM accounts WHERE id = $2 AND $3 > 0",
    "INSERT INTO calls (id, account_id, key_id, pays, units, state, created_at, deadline)"
    " VALUES ($1, $2, $3, 1, 2, 0, now_ms(), now_ms() + 60000)",
    "INSERT INTO ledger (call_id, kind, account_id, units, created_at)"
    " SELECT id, 0, account_id, -units, created_at FROM calls WHERE id = $1 AND $2 > 0 AND $3 > 0",
    "INSERT INTO tasks (account_id, call_id, status, voice_id, speed, text, chars, created_at)"
    " SELECT account_id, id, 1, 'a voice', 1.0, 'a text', 6, created_at FROM calls"
    " WHERE id = $1 AND $2 > 0 AND $3 > 0",
    "UPDATE accounts SET balance = balance - 2 WHERE id = $2 AND $1 <> '' AND $3 > 0",
)
"""A grant of five units and a call of two with a task, as an old build wrote them: the call's id, its account
and its key."""


async def _checks(db: Sqlite) -> list[str]:
    """The CHECK lines, except those of a sign, of the tables that each call writes."""
    rows = await db.fetch(f"SELECT sql FROM sqlite_schema WHERE name IN {CHECKED} ORDER BY name")
    lines = [line for (sql,) in rows for line in sql.splitlines()]
    return [line.split("CHECK ")[1] for line in lines if "CHECK (" in line and ">=" not in line]


def _lists_are_built(raw: apsw.Connection) -> bool:
    """Whether this connection still checks against a list, for which SQLite builds a table."""
    raw.execute("SELECT * FROM ledger LIMIT 1").fetchall()  # a read detects that the schema changed
    plan = raw.execute("EXPLAIN INSERT INTO ledger VALUES (x'01', 0, 1, 1, '', 1)", can_cache=False)
    return any(step[1] == "OpenEphemeral" for step in plan)


async def test_the_migration_replaces_list_checks_by_ranges(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    books = Books("", tmp_path)
    books.db = old = await books.open_again()
    assert isinstance(old, Sqlite)
    every = migrations.known("sqlite")
    monkeypatch.setattr(migrations, "known", lambda _: [one for one in every if one[0] <= WITH_LISTS])
    await migrate(old)
    lists = ["(state IN (0, 1, 2)),", "(kind IN (0, 1, 2)),", "(status IN (0, 1, 2, 3)),"]
    assert await _checks(old) == lists
    for statement in OLD_CUSTOMER:
        await books.sql(statement)
    customer = Customer(account_id=1, name="ada", key_id=1, key_hash=b"k" * 32)
    call = charge_of(customer, units=2)
    for statement in OLD_ROWS:
        await books.sql(statement, call.call_id, customer.account_id, customer.key_id)
    beside = SqliteConnection(tmp_path / "myna.sqlite", clock_ms, read_only=False).raw
    assert _lists_are_built(beside)
    monkeypatch.undo()

    assert await migrate(old) == newest("sqlite") == await schema_version(old)

    spans = ["(state BETWEEN 0 AND 2),", "(kind BETWEEN 0 AND 3),", "(status BETWEEN 0 AND 3),"]
    assert await _checks(old) == spans
    assert await books.sql("PRAGMA writable_schema") == [(0,)]
    assert not _lists_are_built(old._writer.raw)
    assert not _lists_are_built(beside)
    beside.close()
    for statement in ("UPDATE calls SET state = 3", "UPDATE tasks SET status = -1"):
        with pytest.raises(apsw.ConstraintError):
            await books.sql(statement)
    await books.end(keep_of(call, None, AUDIO))
    assert await books.sql("PRAGMA integrity_check") == [("ok",)]
    assert await books.balance(customer) == 3
    with pytest.raises(apsw.ConstraintError):
        await books.charge(charge_of(customer, units=-1))
    assert await books.audit() == []
    await old.close()


@pytest.mark.parametrize(
    "check", ["CHECK (kind IN (0,1,2))", "CHECK(kind IN (0, 1, 2))", "CHECK\n(kind IN(0, 1, 2))", ""]
)
async def test_a_missing_check_fails_the_migration(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, check: str
) -> None:
    every = migrations.known("sqlite")
    written_else = [(number, sql.replace("CHECK (kind IN (0, 1, 2))", check)) for number, sql in every[:1]]
    monkeypatch.setattr(migrations, "known", lambda _: written_else + every[1:])
    books = Books("", tmp_path)
    books.db = await books.open_again()
    with pytest.raises(apsw.ConstraintError, match="changed_by_hand"):
        await migrate(books.db)
    assert not await books.db.has_schema()
    await books.db.close()

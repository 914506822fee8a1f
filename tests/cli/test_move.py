"""myna move: all data of a service moves from SQLite to PostgreSQL."""

import asyncio
import signal
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

import asyncpg
import pytest

from myna.store.postgresql import Postgresql
from tests.cli.conftest import CHAT, SAID_DATABASE, Cli, Site
from tests.rig.calls import call
from tests.rig.forks import Forks
from tests.rig.service import ServiceMaker
from tests.rig.waiting import SOON_S, wait_until


def test_a_moved_site_continues_where_it_was(sqlite_site: Site, postgres_url: str) -> None:
    service, before = sqlite_site.service, sqlite_site.service.cli("account", "list")
    moved = service.cli("move", "--to", postgres_url)
    assert (moved["accounts"], moved["keys"], moved["tasks"], moved["calls"]) == (1, 1, 1, 2)

    for command in (("serve",), ("account", "list"), ("audit",)):
        refused = service.command(*command)
        assert refused.code == 1 and "was moved to PostgreSQL: set MYNA_DATABASE_URL" in refused.stderr
    assert not (service.folder / "data" / "myna.sqlite").exists()
    assert moved["old"].startswith(str(service.folder / "data" / "myna.sqlite.moved-"))

    service.env["MYNA_DATABASE_URL"] = postgres_url
    service.start()
    assert service.cli("account", "list") == before
    assert call("GET", f"{service.root_url}/uploads/{sqlite_site.audio}").status == 200
    answer = call("POST", f"{service.base_url}/chat/completions", key=sqlite_site.key.plain, data=CHAT)
    assert answer.status == 200
    assert service.stop() == 0
    assert service.command("audit", "--audio").code == 0


@pytest.mark.parametrize("to", ["mysql://root:secret@127.0.0.1/myna", "postgresql://a:sec/ret@127.0.0.1/b"])
def test_a_wrong_target_is_refused_with_the_name_of_its_setting(cli: Cli, to: str) -> None:
    said = cli.misused("move", "--to", to)
    assert said.startswith("--to: must be postgresql://") and "sec" not in said
    assert cli.misused("move", MYNA_DATABASE_URL=to).startswith("MYNA_DATABASE_URL: must be")


def test_a_target_that_is_not_empty_is_refused(sqlite_site: Site, postgres_books_url: str) -> None:
    ended = sqlite_site.service.command("move", "--to", postgres_books_url)
    assert ended.code == 1 and "isn't empty" in ended.stderr
    assert sqlite_site.service.cli("account", "list")[0]["name"] == "talkative", "all is where it was"
    assert not list((sqlite_site.service.folder / "data").glob(".move-*"))


class Started:
    """A command that runs in its own process."""

    def __init__(self, forks: Forks, site: Site, *arguments: str) -> None:
        self._err = site.service.folder / f"{arguments[0]}.stderr"
        out = self._err.with_suffix(".stdout")
        self.process = forks.start([*arguments], site.service.env, site.service.folder, out, self._err)

    @property
    def stderr(self) -> str:
        return self._err.read_text() if self._err.exists() else ""


@contextmanager
def copying(forks: Forks, site: Site, to: str, holding: str) -> Iterator[Started]:
    """A move that has read its rows and waits for a lock in the target until the end of the block."""

    async def lock() -> Any:
        raw = await asyncpg.connect(to)
        await raw.execute(holding)
        return raw

    with asyncio.Runner() as runner:
        raw = runner.run(lock())
        moving = Started(forks, site, "move", "--to", to)

        def waits() -> bool:
            assert moving.process.poll() is None, moving.stderr
            return bool(runner.run(raw.fetchval(WAITING)))

        try:
            wait_until(waits, SOON_S, "the move waits for the lock")
            yield moving
        finally:
            runner.run(raw.close())


SCHEMA_LOCK = "SELECT pg_advisory_lock(77121110)"
WAITING = """SELECT count(*) FROM pg_locks l JOIN pg_database d ON d.oid = l.database
WHERE NOT l.granted AND d.datname = current_database()"""
AUDIT_STOP = """
SELECT pg_advisory_lock(1);
CREATE FUNCTION wait() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN PERFORM pg_advisory_xact_lock(1); RETURN new; END $$;
CREATE FUNCTION stop_audits() RETURNS event_trigger LANGUAGE plpgsql AS $$
BEGIN
    IF to_regclass('audit_state') IS NOT NULL
       AND NOT EXISTS (SELECT 1 FROM pg_trigger WHERE tgname = 'wait') THEN
        CREATE TRIGGER wait BEFORE UPDATE ON audit_state FOR EACH ROW EXECUTE FUNCTION wait();
    END IF;
END $$;
CREATE EVENT TRIGGER stop_audits ON ddl_command_end WHEN TAG IN ('CREATE TABLE')
EXECUTE FUNCTION stop_audits()"""
"""An audit waits where it records how it went."""


def test_a_grant_during_a_move_is_refused_and_never_lost(
    sqlite_site: Site, forks: Forks, postgres_url: str
) -> None:
    """The grant has opened the old database before it is renamed."""
    (before,) = sqlite_site.service.cli("account", "list")
    with copying(forks, sqlite_site, postgres_url, SCHEMA_LOCK) as moving:
        granting = Started(forks, sqlite_site, "account", "grant", "talkative", "100")
        wait_until(lambda: SAID_DATABASE in granting.stderr, SOON_S, "the grant has opened the database")
    assert moving.process.wait() == 0, moving.stderr
    assert granting.process.wait() == 1, granting.stderr
    sqlite_site.service.env["MYNA_DATABASE_URL"] = postgres_url
    assert sqlite_site.service.cli("account", "list") == [before]


def test_a_move_cut_after_the_load_is_repeatable(sqlite_site: Site, forks: Forks, postgres_url: str) -> None:
    """The move is stopped in the audit of the target."""
    with copying(forks, sqlite_site, postgres_url, AUDIT_STOP) as moving:
        moving.process.send_signal(signal.SIGINT)
        assert moving.process.wait() != 0, moving.stderr
    assert sqlite_site.service.cli("move", "--to", postgres_url)["calls"] == 2


def test_calls_open_past_their_deadline_do_not_prevent_a_move(sqlite_site: Site, postgres_url: str) -> None:
    """The call is refunded at the first start of the service on the target."""
    with closing(sqlite3.connect(sqlite_site.service.folder / "data" / "myna.sqlite")) as raw, raw:
        for number in (1, 2, 3):
            call_id, deadline = bytes([number]) * 16, 10 - number  # the two databases give them in two orders
            raw.execute(
                "INSERT INTO calls (id, account_id, key_id, pays, units, state, created_at, deadline)"
                " SELECT ?, account_id, key_id, pays, 0, 0, 0, ? FROM calls WHERE state = 1 LIMIT 1",
                (call_id, deadline),
            )
            raw.execute(
                "INSERT INTO ledger (call_id, kind, account_id, units, created_at)"
                " SELECT id, 0, account_id, 0, 0 FROM calls WHERE id = ?",
                (call_id,),
            )
    assert sqlite_site.service.command("audit").code == 1
    assert sqlite_site.service.cli("move", "--to", postgres_url)["calls"] == 5


async def test_books_with_breaches_are_moved_and_the_target_can_be_emptied(
    sqlite_site: Site, postgres_url: str
) -> None:
    """A breach that both databases have does not prevent a move; a difference does."""
    (sqlite_site.service.folder / "data" / "audio" / sqlite_site.audio[:2] / sqlite_site.audio).unlink()
    assert sqlite_site.service.command("audit").code == 1
    assert sqlite_site.service.command("move", "--to", postgres_url).code == 0
    db = await Postgresql.open(postgres_url)
    try:
        await db.transaction(lambda connection: connection.tables.drop_all())
        assert await db.snapshot(lambda snapshot: snapshot.tables.layout()) == []
        assert not await db.has_schema()
    finally:
        await db.close()


def test_without_a_database_nothing_is_moved(bare_cli: Cli) -> None:
    to = "postgresql://127.0.0.1:1/db"
    assert bare_cli.refused("move", "--to", to).startswith("There is no SQLite database in ")


def test_a_service_that_ignores_a_database_reports_it(make_service: ServiceMaker, postgres_url: str) -> None:
    service = make_service(chat_url="parrot:", speech="none")
    service.cli("migrate")
    service.env["MYNA_DATABASE_URL"] = postgres_url
    service.start()
    wait_until(lambda: "myna move" in service.stderr, SOON_S, "the warning is logged")
    warned = [line for line in service.log_lines if "myna move" in line]
    assert len(warned) == 1 and str(service.folder / "data" / "myna.sqlite") in warned[0]


def test_only_postgresql_can_be_the_target(cli: Cli) -> None:
    for to in ("sqlite:", ""):
        assert "postgresql://" in cli.misused("move", "--to", to)
    assert "s3cr3t" not in cli.refused("move", "--to", "postgresql://user:s3cr3t@127.0.0.1:1/db")

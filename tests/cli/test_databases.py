"""A command uses the database of the service and prints its name; it never creates one. An unusable database
is one line with its message, without the password of its URL."""

import asyncio
import os
from pathlib import Path

import asyncpg
import pytest

from myna.cli.console import owner_of_files
from myna.errors import CommandError
from myna.settings import Settings
from myna.store.files.named_files import SampleStore
from myna.store.files.storage import Folder
from tests.cli.conftest import SAID_DATABASE, Cli
from tests.rig.postgres import Postgres

SECRET = "s3cr%3Ft"
COMMANDS = ("serve", "migrate", "audit")


def test_a_database_that_does_not_exist(bare_cli: Cli, postgres: Postgres) -> None:
    url = postgres.url.rpartition("/")[0] + "/nowhere"
    place = url.partition("@")[2]
    for command in COMMANDS:
        line = bare_cli.refused(command, MYNA_DATABASE_URL=url)
        assert line == f'The database {place} can\'t be opened: database "nowhere" does not exist.'


ON_THE_DATABASE = [
    ("audit",),
    ("account", "list"),
    ("account", "add", "a"),
    ("key", "list", "a"),
    ("channel", "list"),
    ("channel", "add", "chat", "a", "parrot:"),
    ("voice", "list"),
    ("node", "list"),
    ("node", "enroll", "n"),
    ("settings", "list"),
    ("settings", "set", "chat_units", "2"),
]


def test_a_command_creates_no_database_and_names_the_folder(bare_cli: Cli) -> None:
    data = bare_cli.service.folder / "data"
    for command in ON_THE_DATABASE:
        line = bare_cli.refused(*command)
        assert line.startswith(f"There is no database in {data} (set by MYNA_DATA). ")
        assert list(data.iterdir()) == []


def test_the_database_is_named_on_stderr_and_not_with_json(cli: Cli) -> None:
    for command in (("audit",), ("account", "list")):
        ended = cli.service.command(*command)
        assert ended.stderr == f"{SAID_DATABASE}{cli.service.folder / 'data' / 'myna.sqlite'}\n"
        assert cli.service.command(*command, "--json").stderr == ""


def test_a_database_url_is_printed_without_user_and_password(bare_cli: Cli, postgres_books_url: str) -> None:
    ended = bare_cli.service.command("account", "list", env={"MYNA_DATABASE_URL": postgres_books_url})
    assert ended.stderr == SAID_DATABASE + postgres_books_url.rpartition("@")[2] + "\n"


def test_an_unknown_variable_is_refused(cli: Cli) -> None:
    for variable, nearest in (("MYNA_CHAT_KYE", " Did you mean MYNA_CHAT_KEY?"), ("MYNA_X", "")):
        for command in (("serve",), ("account", "list"), ("migrate",)):
            line = cli.misused(*command, **{variable: "s3cr3t"})
            assert line.startswith(f"{variable}: there is no such setting.{nearest} A variable that contains")
            assert "s3cr3t" not in line


def test_a_role_without_rights(bare_cli: Cli, postgres_books_url: str) -> None:
    async def execute(statement: str) -> None:
        connection = await asyncpg.connect(postgres_books_url)
        await connection.execute(statement)
        await connection.close()

    asyncio.run(execute("CREATE ROLE poor LOGIN"))
    place = postgres_books_url.partition("@")[2]
    line = bare_cli.refused("migrate", MYNA_DATABASE_URL=f"postgresql://poor@{place}")
    assert "permission denied for schema public" in line
    asyncio.run(execute("DROP ROLE poor"))


def test_a_host_that_has_no_address(bare_cli: Cli) -> None:
    line = bare_cli.refused("migrate", MYNA_DATABASE_URL=f"postgresql://myna:{SECRET}@no.invalid/site")
    assert line.startswith("The database no.invalid/site can't be opened: ")
    assert "gaierror" not in line and SECRET not in line


OTHER_UID, ROOT = 4711, 0


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    found = Settings(data=str(tmp_path))
    found.sqlite_file.touch()
    return found


def run_by(user: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: user)


def test_the_services_own_user_keeps_what_it_writes(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    if os.geteuid() == ROOT:
        os.chown(settings.sqlite_file, OTHER_UID, OTHER_UID)
    run_by(settings.sqlite_file.stat().st_uid, monkeypatch)
    assert owner_of_files(settings) is None


def test_another_user_is_refused_by_name(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    run_by(settings.sqlite_file.stat().st_uid + OTHER_UID, monkeypatch)
    with pytest.raises(
        CommandError, match=r"^The service's files belong to .*: run it as that user, or as root"
    ):
        owner_of_files(settings)


def test_a_sample_and_its_folders_get_that_owner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[tuple[Path, int, int]] = []
    monkeypatch.setattr(os, "chown", lambda path, user, group: given.append((path, user, group)))
    name, path = SampleStore(Folder(tmp_path), (7, 8)).new()
    path.touch()
    SampleStore(Folder(tmp_path), (7, 8)).make_private(name)
    assert given == [(found, 7, 8) for found in (tmp_path / "samples", path.parent, path)]
    SampleStore(Folder(tmp_path)).make_private(name)
    assert len(given) == 3

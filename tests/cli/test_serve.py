"""Errors of `myna serve` at startup, each in one line. And what all commands say of the database: they use
that of the service, print its name, and never create one.
"""

import asyncio
import json
import os
import pty
import re
import signal
import socket
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from urllib.parse import unquote

import asyncpg
import pytest

from myna.cli.console import owner_of_files
from myna.errors import CommandError
from myna.server.app import SCHEMA_CHANGED
from myna.settings import Settings
from myna.store.files.named_files import SampleStore
from myna.store.files.storage import Folder
from tests.cli.conftest import SAID_DATABASE, Cli
from tests.rig.calls import call
from tests.rig.forks import Forks
from tests.rig.postgres import Postgres
from tests.rig.service import Service, ServiceMaker
from tests.rig.waiting import SOON_S, wait_until


def test_an_invalid_host_is_one_line_and_exit_2(cli: Cli) -> None:
    for host in ("no such host", "x" * 300, "192.0.2.1"):
        assert cli.misused("serve", MYNA_HOST=host).startswith("MYNA_HOST: ")


def test_an_unusable_data_folder_is_one_line_and_exit_2(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    for data in ("file", "file/below"):
        line = cli.misused("serve", MYNA_DATA=str(tmp_path / data))
        assert line.startswith("MYNA_DATA: ")


def test_a_port_in_use_is_one_line_and_exit_1(cli: Cli) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        line = cli.refused("serve", MYNA_PORT=str(port))
    assert line == f"Can't listen on 127.0.0.1 port {port}: Address already in use."


def test_a_ready_server_prints_its_address_and_its_public_url(make_service: ServiceMaker) -> None:
    env = {"MYNA_PUBLIC_URL": "https://myna.example"}
    running = make_service(chat_url="parrot:", speech="none", env=env).start()
    port = running.root_url.rsplit(":", 1)[1]
    wait_until(lambda: any('"ready: ' in line for line in running.log_lines), 60, "it says that it is ready")
    messages = [json.loads(line)["message"] for line in running.log_lines]
    assert [message for message in messages if message.startswith("ready")] == [
        f"ready: listening on 127.0.0.1 port {port}; base URL for OpenAI clients: https://myna.example/openai/v1,"
        " and for /v1: https://myna.example/v1"
    ]
    assert running.stop() == 0


def test_while_one_serves_another_and_a_migration_are_refused(cli: Cli, make_service: ServiceMaker) -> None:
    running = make_service(chat_url="parrot:", speech="none").start()
    data = str(running.folder / "data")
    for command in ("serve", "migrate"):
        line = cli.refused(command, MYNA_DATA=data)
        assert line == f"Another process serves from {data}; stop it first."
    assert running.stop() == 0


def test_a_server_of_sqlite_ends_when_the_schema_became_another_versions(make_service: ServiceMaker) -> None:
    env = {"MYNA_SWEEP_EVERY_S": "0.1"}
    running = make_service(chat_url="parrot:", speech="none", env=env).start()
    with closing(sqlite3.connect(running.folder / "data" / "myna.sqlite")) as file, file:
        file.execute("INSERT INTO schema_version (version) VALUES (9999)")
    assert running.exit_code() == 1
    assert running.stderr.splitlines()[-1] == f"myna: {SCHEMA_CHANGED}"


LINK = re.compile(r"http://\S+/office/welcome\?token=(mynalink_[0-9a-f]{64})\b")


class Terminal:
    """`myna serve` with its standard output at a terminal, and the log in a file."""

    def __init__(self, service: Service, forks: Forks) -> None:
        self.service = service
        self._forks = forks
        self.printed = ""
        self._log = service.folder / "log"

    @property
    def log(self) -> str:
        return self._log.read_text()

    @contextmanager
    def serving(self) -> Iterator["Terminal"]:
        ours, theirs = pty.openpty()
        self._log.write_text("")
        place, service = Path(os.ttyname(theirs)), self.service
        process = self._forks.start(["serve"], service.env, service.folder, place, self._log)
        reader = threading.Thread(target=self._read, args=(ours,))
        reader.start()
        try:
            wait_until(self._ready, SOON_S, "the service is ready")
            yield self
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(SOON_S)
            os.close(theirs)
            reader.join()
            os.close(ours)

    def link(self, number: int) -> str:
        """The link that was printed as this one, from 1 on; a thread reads what is printed."""
        wait_until(lambda: len(LINK.findall(self.printed)) == number, SOON_S, "a link is printed")
        return str(LINK.findall(self.printed)[-1])

    def _ready(self) -> bool:
        with suppress(OSError):
            return call("GET", f"{self.service.root_url}/readyz").status == 200
        return False

    def _read(self, descriptor: int) -> None:
        with suppress(OSError):  # the terminal was closed
            while data := os.read(descriptor, 4096):
                self.printed += data.decode()


def test_a_terminal_gets_a_link_until_an_operator_can_sign_in(bare_cli: Cli, forks: Forks) -> None:
    terminal = Terminal(bare_cli.service, forks)
    with terminal.serving():
        first = terminal.link(1)
        assert "within 15 minutes" in terminal.printed and "works once" in terminal.printed
        assert f"{terminal.service.root_url}/office/welcome?token={first}" in terminal.printed
    with terminal.serving():
        second = terminal.link(2)
        assert second != first
        page = f"{terminal.service.root_url}/office/welcome?token="
        assert call("GET", page + first).status == 410
        assert call("GET", page + second).status == 200
    assert "mynalink_" not in terminal.log
    assert any(json.loads(line).get("path") == "/office/welcome" for line in terminal.log.splitlines())
    assert "mynalink_" not in "\n".join(terminal.service.command("activity").stdout)


def test_without_a_terminal_the_log_names_the_command_and_no_link_is_made(make_service: ServiceMaker) -> None:
    service = make_service(chat_url="parrot:", speech="none").start()
    assert service.stdout == ""
    (line,) = [json.loads(one) for one in service.log_lines if "no operator can sign in" in one]
    assert "'myna account add NAME --operator'" in line["message"]
    made = service.cli("account", "add", "ann", "--operator")
    token = made["link"].partition("token=")[2]
    assert call("GET", made["link"]).status == 200
    assert service.stop() == 0
    assert token not in service.stderr + service.stdout


SECRET = "s3cr%3Ft"
COMMANDS = ("serve", "migrate", "audit")
UNUSABLE = {
    f"postgresql://user:{SECRET}@127.0.0.1:1/myna": "127.0.0.1:1/myna can't be opened: Connection refused.",
    f"postgresql://user:{SECRET}@127.0.0.1:1,[::1]:1/my%20db?password={SECRET}&sslkey=/{SECRET}": (
        "127.0.0.1:1,[::1]:1/my%20db can't be opened: "
    ),
    f"postgresql://user:{SECRET}@no.invalid/site": "no.invalid/site can't be opened: ",
}


@pytest.mark.parametrize(
    ("url", "said"), UNUSABLE.items(), ids=["closed port", "several hosts", "no address"]
)
def test_an_unusable_database_is_one_line_without_its_urls_secrets(cli: Cli, url: str, said: str) -> None:
    for command in COMMANDS:
        line = cli.refused(command, MYNA_DATABASE_URL=url)
        assert line.startswith(f"The database {said}")
        assert not any(word in line for word in (SECRET, unquote(SECRET), "user", "gaierror"))


def test_a_database_that_does_not_exist(bare_cli: Cli, postgres: Postgres) -> None:
    url = postgres.url.rpartition("/")[0] + "/nowhere"
    place = url.partition("@")[2]
    for command in COMMANDS:
        line = bare_cli.refused(command, MYNA_DATABASE_URL=url)
        assert line == f'The database {place} can\'t be opened: database "nowhere" does not exist.'


ON_THE_DATABASE = [
    *("audit", "account list", "account add a", "key list a", "channel list", "channel add chat a parrot:"),
    *("voice list", "node list", "node enroll n", "settings list", "settings set chat_units 2"),
]


def test_a_command_creates_no_database_and_names_the_folder(bare_cli: Cli) -> None:
    data = bare_cli.service.folder / "data"
    for command in ON_THE_DATABASE:
        line = bare_cli.refused(*command.split())
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


OTHER_UID, ROOT = 4711, 0


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    found = Settings(data=str(tmp_path))
    found.sqlite_file.touch()
    return found


def run_by(user: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: user)


def test_the_services_user_keeps_what_it_writes(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
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

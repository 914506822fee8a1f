"""Errors of `myna serve` at startup, each in one line."""

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

import pytest

from myna.server.app import SCHEMA_CHANGED
from tests.cli.conftest import Cli
from tests.rig.calls import call
from tests.rig.commands import CommandLine
from tests.rig.forks import Forks
from tests.rig.service import Service, ServiceMaker
from tests.rig.waiting import SOON_S, free_port, wait_until
from tests.test_settings import SECRET


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


def test_an_unavailable_database_is_one_line_and_exit_1_without_its_password(cli: Cli) -> None:
    port = free_port()
    url = f"postgresql://user:{SECRET}@127.0.0.1:{port}/myna"
    for command in ("serve", "migrate", "audit"):
        line = cli.refused(command, MYNA_DATABASE_URL=url)
        assert line == f"The database 127.0.0.1:{port}/myna can't be opened: Connection refused."


def test_only_host_and_database_of_a_url_are_printed(cli: Cli) -> None:
    url = f"postgresql://user:{SECRET}@127.0.0.1:1,[::1]:1/my%20db?password={SECRET}&sslkey=/{SECRET}"
    line = cli.refused("audit", MYNA_DATABASE_URL=url)
    assert line.startswith("The database 127.0.0.1:1,[::1]:1/my%20db can't be opened: ")
    assert SECRET not in line
    assert "user" not in line


def test_a_ready_server_prints_its_address_and_its_public_url(
    make_service: ServiceMaker,
) -> None:
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


def test_a_second_server_and_a_migration_are_refused_while_one_serves(
    cli: Cli, make_service: ServiceMaker
) -> None:
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


@pytest.fixture
def terminal(tmp_path: Path, commands: CommandLine, forks: Forks) -> Terminal:
    return Terminal(Service(tmp_path, commands, chat_url="parrot:", speech="none"), forks)


def test_a_terminal_gets_a_link_until_an_operator_can_sign_in(terminal: Terminal) -> None:
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

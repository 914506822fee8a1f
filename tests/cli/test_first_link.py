"""The link of the first operator, which `myna serve` prints to a terminal and nowhere else."""

import json
import os
import pty
import re
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.rig.calls import call
from tests.rig.commands import CommandLine
from tests.rig.forks import Forks
from tests.rig.service import Service, ServiceMaker
from tests.rig.waiting import SOON_S, wait_until

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

    def links(self) -> list[str]:
        return LINK.findall(self.printed)

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
        (first,) = terminal.links()
        assert "within 15 minutes" in terminal.printed and "works once" in terminal.printed
        assert f"{terminal.service.root_url}/office/welcome?token={first}" in terminal.printed
    with terminal.serving():
        _, second = terminal.links()
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

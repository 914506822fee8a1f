"""The commands of docs/install.md and docs/upgrade.md work: below a prefix, from a checkout."""

import os
import re
import shutil
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.pages import DOCS, ROOT, fences
from tests.rig.calls import call
from tests.rig.commands import output_of
from tests.rig.waiting import wait_until

pytestmark = pytest.mark.slow
FOLDERS = (
    "/opt/myna", "/etc/myna", "/etc/systemd/system", "/var/lib/myna-backup", "/var/lib/myna", "/usr/local/bin"
)  # fmt: skip
OLD, NEW = "0.28.0", "9.9.9"
NEURAL = "myna models get kokoro"
INSTALL_MAX_S = 900
STUBS = {
    "sudo": 'while [ "$1" = -u ]; do shift 2; done; exec env "$@"',
    "useradd": "",
    "chown": "",
    "journalctl": "",
    "install": 'exec /usr/bin/install $(echo "$@" | sed -E "s/-[og] [a-z]+//g")',
}
"""Programs of root, as an ordinary user can run them."""
SYSTEMCTL = """case "$*" in
  *timer*) exit ;;
  *backup*)
    export $(sed -n 's/^Environment=//p' {backup})
    eval "$(sed -n 's/^ExecStart=//p' {backup} | sed 's/[$][$]/$/g; s/%%/%/g')"; exit ;;
  stop*|restart*) pid=$(cat {pid}); kill $pid; while kill -0 $pid 2>/dev/null; do sleep 0.1; done; rm {pid} ;;
esac
case "$*" in
  start*|restart*|*--now*)
    while IFS='=' read -r name value; do case "$name" in
      Environment) export "$value" ;;
      ExecStart) program=$value ;;
    esac; done < {unit}
    cd {data} && setsid $program >{log} 2>&1 & echo $! > {pid} ;;
esac"""


class Machine:
    """A folder in the place of `/`, and a checkout. Its `.venv` is its own: `make` installs into it."""

    def __init__(self, folder: Path) -> None:
        self._root = folder / "root"
        self.checkout = folder / "checkout"
        self._programs = folder / "programs"
        for name in FOLDERS[2:]:
            (self._root / name[1:]).mkdir(parents=True)
        files = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout
        for name in filter(None, files.decode().split("\0")):
            (self.checkout / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, self.checkout / name)
        for unit in (self.checkout / "deploy" / "systemd").iterdir():
            unit.write_text(self._here(unit.read_text("utf-8")), "utf-8")
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        systemctl = SYSTEMCTL.format(
            unit=self.path("/etc/systemd/system/myna.service"),
            backup=self.path("/etc/systemd/system/myna-backup.service"),
            data=self.path("/var/lib/myna"),
            log=folder / "log",
            pid=folder / "pid",
        )
        self._programs.mkdir()
        for name, text in {**STUBS, "systemctl": systemctl}.items():
            (self._programs / name).write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
            (self._programs / name).chmod(0o755)
        self._pid = folder / "pid"

    def path(self, name: str) -> Path:
        return self._root / name[1:]

    def run(self, text: str) -> str:
        """Runs a block of a page, whose folders are below the root here."""
        text = self._here(text)
        text = text.replace("127.0.0.1:8080", f"127.0.0.1:{self.port}")
        text = text.replace("make install", f"make install PREFIX={self.path('/opt/myna')}")
        path = f"{self._programs}:{self.path('/usr/local/bin')}:{os.environ['PATH']}"
        env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        env |= {"PATH": path, "PYTHON": "python3", "MYNA_PORT": str(self.port)}
        printed = output_of(["sh", "-e", "-c", text], env, self.checkout, INSTALL_MAX_S)
        if re.search(r"systemctl (re)?start|--now", text):
            wait_until(self.is_ready, 60, "the service serves")
        return printed

    def _here(self, text: str) -> str:
        return re.sub("|".join(FOLDERS), lambda found: str(self.path(found[0])), text)

    def set_version(self, version: str) -> None:
        """The checkout is one of this version."""
        file = self.checkout / "myna" / "__init__.py"
        text = re.sub(r'__version__ = ".*"', f'__version__ = "{version}"', file.read_text("utf-8"))
        file.write_text(text, encoding="utf-8")

    def is_ready(self) -> bool:
        try:
            return call("GET", f"http://127.0.0.1:{self.port}/healthz").status == 200
        except OSError:
            return False

    def close(self) -> None:
        if self._pid.exists():
            self.run("systemctl stop myna")


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    made = Machine(tmp_path)
    yield made
    made.close()


def blocks(page: str) -> list[str]:
    return [fence.text for fence in fences(DOCS / page) if fence.language == "sh"]


@pytest.mark.timeout(3 * INSTALL_MAX_S)
def test_both_pages_install_upgrade_and_go_back(machine: Machine) -> None:
    machine.set_version(OLD)
    said = "".join(machine.run(text) for text in blocks("install.md") if NEURAL not in text)
    assert re.search(r"link +http://127\.0\.0\.1:\d+/office/welcome\?token=", said)
    assert re.search(r"myna_[0-9a-f]{40}", said), "no key was printed"
    assert OLD in said
    assert "https://ai.example.com/office/" in machine.run("myna account invite admin")
    (nightly,) = (text for text in blocks("operations.md") if "myna-backup" in text)
    machine.run(nightly)
    (made,) = machine.path("/var/lib/myna-backup").glob("site-[1-7].tar")
    assert made.stat().st_size > 0
    machine.set_version(NEW)
    *upgrade, back = blocks("upgrade.md")
    for text in upgrade:
        machine.run(text)
    assert NEW in machine.run("myna version")
    machine.run("myna account add later")
    machine.run(back)
    assert OLD in machine.run("myna version")
    accounts = machine.run("myna account list")
    assert "admin" in accounts and "later" not in accounts

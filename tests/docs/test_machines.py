"""The commands of docs/operations.md take a site from one machine to three: folders and ports on the
loopback, with a real PostgreSQL and nginx."""

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.docs.pages import DOCS, ROOT
from tests.docs.test_install_pages import STUBS
from tests.rig.calls import call
from tests.rig.commands import output_of
from tests.rig.postgres import SYSTEM_PATH
from tests.rig.processes import tethered
from tests.rig.upstream import Upstream
from tests.rig.waiting import SOON_S, free_port, wait_until

NGINX = shutil.which("nginx", path=SYSTEM_PATH)
pytestmark = [pytest.mark.slow, pytest.mark.skipif(NGINX is None, reason="nginx is not installed")]
FOLDERS = "/etc/myna|/etc/fstab|/etc/nginx|/var/lib/myna|/mnt"
PROGRAMS = {
    **STUBS,
    "scp": 'sed "s,{first}/,{root}/," "{first}/etc/myna/myna.toml" > "$3"',
    "mount": 'for dir; do :; done; [ -d "$dir" ] && mv "$dir" "$dir.below"; ln -sfn "{shared}" "$dir"',
    "myna": 'export MYNA_CONFIG="{root}/etc/myna/myna.toml"; exec "{python}" -m myna "$@"',
    "nginx": 'exec "{nginx}" -c "{root}/etc/nginx/nginx.conf" -e "{root}/e" "$@"',
    "systemctl": """case "$1" in
  stop) kill $(cat {root}/pid); while kill -0 $(cat {root}/pid) 2>/dev/null; do sleep 0.05; done ;;
  *) export MYNA_CONFIG={root}/etc/myna/myna.toml
     setsid "{python}" -m myna serve >{root}/log 2>&1 & echo $! >{root}/pid ;;
esac""",
}
AROUND = """daemon off; pid {folder}/nginx.pid; error_log {folder}/error.log; user root;
events {{ worker_connections 64; }}
http {{ access_log off; client_body_temp_path {folder}/b; proxy_temp_path {folder}/p;
fastcgi_temp_path {folder}/f; uwsgi_temp_path {folder}/u; scgi_temp_path {folder}/s;
include {folder}/sites-enabled/*; }}"""
SITE = """upstream myna {{ server 127.0.0.1:8080 max_fails=0; }}
server {{ listen 127.0.0.1:{port}; location / {{ proxy_pass http://myna; }} }}"""


class Machines:
    """A folder in the place of `/` for each machine, and a port that stands for its 8080."""

    def __init__(self, folder: Path, database_url: str) -> None:
        self.folder = folder
        self.ports = [free_port() for _ in range(4)]
        self._database_url = database_url
        for number in range(4):
            root = folder / str(number)
            for name in ("etc/myna", "etc/nginx/sites-enabled", "var/lib/myna", "bin"):
                (root / name).mkdir(parents=True)
            for name, text in PROGRAMS.items():
                known = {"root": root, "first": folder / "0", "shared": folder / "shared", "nginx": NGINX}
                text = text if name in STUBS else text.format(**known, python=sys.executable)
                (root / "bin" / name).write_text(f"#!/bin/sh\n{text}\n")
                (root / "bin" / name).chmod(0o755)
        (folder / "shared").mkdir()

    def run(self, number: int, text: str, **more: str) -> str:
        """Runs commands of the page on a machine."""
        root = self.folder / str(number)
        text = re.sub(FOLDERS, lambda found: f"{root}{found[0]}", text).replace("0.0.0.0", "127.0.0.1")  # noqa: S104
        text = text.replace("postgresql://myna:secret@db.internal/myna", self._database_url)
        text = re.sub(
            r"10\.0\.0\.(\d):8080", lambda found: f"127.0.0.1:{self.ports[int(found[1]) - 1]}", text
        )
        env = {"PATH": f"{root}/bin:{os.environ['PATH']}", "PYTHONPATH": str(ROOT), "MYNA_SPEECH": "espeak"}
        env |= {
            "MYNA_PORT": str(self.ports[number]),
            "HOME": str(root),
            "MYNA_DISK_RESERVE_BYTES": "0",
            **more,
        }
        return output_of(["sh", "-e", "-c", text], env | more, root)

    def is_ready(self, number: int) -> bool:
        try:
            return call("GET", f"http://127.0.0.1:{self.ports[number]}/readyz").status == 200
        except OSError:
            return False

    def close(self) -> None:
        for file in self.folder.glob("?/pid"):
            os.kill(int(file.read_text()), signal.SIGTERM)


@pytest.fixture
def machines(tmp_path: Path, postgres_url: str) -> Iterator[Machines]:
    made = Machines(tmp_path, postgres_url)
    yield made
    made.close()


def test_ten_commands_lead_from_one_machine_to_three(machines: Machines, upstream: Upstream) -> None:
    section = (
        (DOCS / "operations.md")
        .read_text()
        .partition("### From one machine to three")[2]
        .partition("\n## ")[0]
    )
    first, others, proxy = re.findall(r"```sh\n(.*?)```", section, re.DOTALL)[:3]
    assert sum(len(block.splitlines()) for block in (first, others, proxy)) == 10
    config = machines.folder / "0" / "etc/myna/myna.toml"
    config.write_text(f'data = "{machines.folder}/0/var/lib/myna"\n')
    machines.run(0, "myna migrate; systemctl start myna")
    wait_until(lambda: machines.is_ready(0), SOON_S, "the first machine serves")
    machines.run(0, f"myna channel add chat up {upstream.url}; echo {upstream.key} | myna channel key up")
    machines.run(0, "myna account add ann --units 50")
    key = re.search(
        r"myna_[0-9a-f]{40}", machines.run(0, "myna key issue ann --scope chat --scope tts --scope records")
    )
    assert key

    machines.run(0, first)
    for number in (1, 2):
        machines.run(number, others)
    for number in range(3):
        wait_until(partial(machines.is_ready, number), SOON_S, "each machine serves")
    root = machines.folder / "3"
    (root / "etc/nginx/nginx.conf").write_text(AROUND.format(folder=root / "etc/nginx"))
    (root / "etc/nginx/sites-enabled/myna").write_text(SITE.format(port=machines.ports[3]))
    with subprocess.Popen(tethered([f"{root}/bin/nginx"])) as nginx:
        wait_until((root / "etc/nginx/nginx.pid").exists, SOON_S, "nginx has started")
        machines.run(3, proxy)
        check_the_site(machines, upstream, key[0])
        nginx.send_signal(signal.SIGQUIT)
    assert machines.run(1, "myna audit --full --audio")
    assert not list((machines.folder / "shared" / "secrets").iterdir())


def check_the_site(machines: Machines, upstream: Upstream, key: str) -> None:
    """One site: each machine answers, with the channel's key, and has the sound of the others."""
    chat = {"model": "svc-chat", "messages": [{"role": "user", "content": "hello"}]}
    for port in machines.ports:
        answer = call("POST", f"http://127.0.0.1:{port}/v1/chat/completions", key=key, data=chat)
        assert answer.status == 200
        assert upstream.requests[-1].headers["authorization"] == f"Bearer {upstream.key}"
        speech = {"text": "One, two.", "voice_id": "en-us-male-1"}
        spoken = call("POST", f"http://127.0.0.1:{port}/v1/tts", key=key, data=speech)
        assert spoken.status == 200, spoken.body
        path = spoken.json["audio_url"].partition("/uploads/")[2]
        heard = [call("GET", f"http://127.0.0.1:{each}/uploads/{path}").status for each in machines.ports]
        assert heard == [200] * 4
    me = call("GET", f"http://127.0.0.1:{machines.ports[2]}/v1/me", key=key)
    assert me.json["stats"]["calls"] == 8

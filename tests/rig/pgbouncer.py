"""Debian's PgBouncer between the service and PostgreSQL, which lends a session for each transaction."""

import os
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import pytest

from tests.rig.tether import tethered
from tests.rig.waiting import SOON_S, free_port, wait_until

PATH = f"{os.environ['PATH']}:/usr/sbin"
needs_pgbouncer = pytest.mark.skipif(
    shutil.which("pgbouncer", path=PATH) is None, reason="PgBouncer is not installed"
)
CONFIG = """[databases]
* = host={host} port={port} user={user} pool_size={size}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {listens}
unix_socket_dir =
auth_type = any
pool_mode = {mode}
max_client_conn = 1000
"""

Pooled = Callable[[str, str, int], str]
"""Starts a pooler for this PostgreSQL, in this mode, with so many sessions; returns the URL through it."""


@pytest.fixture
def pooled() -> Iterator[Pooled]:
    folders: list[Path] = []
    started: list[subprocess.Popen[bytes]] = []

    def start(url: str, mode: str, size: int) -> str:
        server, listens = urlsplit(url), free_port()
        folder = Path(tempfile.mkdtemp(prefix="myna-pgbouncer-"))
        folders.append(folder)
        config = folder / "pgbouncer.ini"
        values = {"host": server.hostname, "port": server.port, "user": server.username, "size": size}
        config.write_text(CONFIG.format(mode=mode, listens=listens, **values))
        program = [shutil.which("pgbouncer", path=PATH) or "", "--quiet", str(config)]
        user = None
        if os.geteuid() == 0:  # it refuses to run as root; Debian's package runs it as this user
            user = "postgres"
            for path in (folder, config):  # whatever the umask
                shutil.chown(path, user)
        log = folder / "log"
        with log.open("wb") as out:
            process = subprocess.Popen(tethered(program, signal.SIGKILL, user), cwd="/", stderr=out)
        started.append(process)

        def accepts() -> bool:
            if process.poll() is not None:
                raise RuntimeError(f"PgBouncer ended with {process.returncode}:\n{log.read_text()}")
            with suppress(OSError), socket.create_connection(("127.0.0.1", listens), 1):
                return True
            return False

        wait_until(accepts, SOON_S, "PgBouncer listens")
        return urlunsplit(server._replace(netloc=f"{server.username}@127.0.0.1:{listens}"))

    yield start
    for process in started:
        process.kill()
        process.wait()
    for folder in folders:
        shutil.rmtree(folder)

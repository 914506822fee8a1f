"""The service of the demo: `myna serve` as a child process, and the command line beside it."""

import http.client
import json
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from myna import settings as settings_module
from myna.settings import PREFIX, Settings

DEFAULTS = {"data": "data/demo", "chat_url": "parrot:"}
"""What the demo wants otherwise than the service, wherever the user hasn't said anything."""
PORTS_TRIED = 20
READY_WAIT_S = 60.0
ANSWER_WAIT_S = 150.0
STOP_WAIT_S = 30.0
LOG_LINES = 12


class DemoFailed(Exception):
    """The demo can't go on; the message says why, in a line."""


def settle(environ: Mapping[str, str]) -> tuple[Settings, dict[str, str], int]:
    """The settings to serve with, the environment that says so, and the port that was wanted.

    Raises ConfigError for a setting that is wrong and DemoFailed where the port the user chose is taken.
    """
    settings, sources = settings_module.load(environ)
    given = {found.name for found in sources if found.source != "default"}
    chosen = {name: value for name, value in DEFAULTS.items() if name not in given}
    last = settings.port + (1 if "port" in given else PORTS_TRIED)
    port = next((port for port in range(settings.port, last) if _is_free(settings.host, port)), None)
    if port is None:
        raise DemoFailed(f"port {settings.port} of {settings.host} can't be used; choose by MYNA_PORT.")
    here = Settings(host=settings.host, port=port).base_url  # the demo calls from this machine
    chosen |= {"port": str(port), "public_url": here}
    env = dict(environ) | {PREFIX + name.upper(): value for name, value in chosen.items()}
    return settings_module.load(env)[0], env, settings.port


def _is_free(host: str, port: int) -> bool:
    try:
        socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET).close()
    except OSError:
        return False
    return True


class Service:
    """A running service. Its process group is its own: Ctrl-C reaches the demo, which ends it in order."""

    def __init__(self, settings: Settings, env: Mapping[str, str]) -> None:
        self.root_url = settings.base_url
        self._env = dict(env)
        settings.data_folder.mkdir(parents=True, exist_ok=True)
        self.log = Path(settings.data) / "service.log"
        with self.log.open("ab") as log:  # never cut short: another demo may be writing to it
            self._log_start = log.tell()
            self.process = subprocess.Popen(
                [sys.executable, "-m", "myna", "serve"],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=self._env, process_group=0,
            )  # fmt: skip

    def wait_ready(self) -> float:
        """Waits until GET /readyz answers 200; how many seconds it took. Raises DemoFailed."""
        started = time.monotonic()
        while (seconds := time.monotonic() - started) < READY_WAIT_S:
            code = self.process.poll()
            if code is not None:
                raise DemoFailed(f"the service ended with exit code {code}.")
            try:
                if exchange("GET", f"{self.root_url}/readyz")[0] == http.client.OK:
                    return seconds
            except OSError:  # it doesn't listen yet
                time.sleep(0.05)
        raise DemoFailed(f"the service wasn't ready within {READY_WAIT_S:g} s.")

    def command(self, *arguments: str) -> Any:
        """Runs `myna ARGUMENTS… --json` and returns what it printed. Raises DemoFailed."""
        command = [sys.executable, "-m", "myna", *arguments, "--json"]
        ended = subprocess.run(command, env=self._env, capture_output=True, text=True, check=False)  # noqa: S603  our own program
        if ended.returncode:
            raise DemoFailed(f"`myna {' '.join(arguments)}`: {ended.stderr.strip()}")
        return json.loads(ended.stdout)

    def stop(self) -> None:
        """Tells the service to end and waits; whoever can't wait presses Ctrl-C again."""
        self.process.terminate()  # does nothing to one that has ended
        try:
            self.process.wait(STOP_WAIT_S)
        except (subprocess.TimeoutExpired, KeyboardInterrupt):
            self.process.kill()
            self.process.wait()

    def log_tail(self) -> list[str]:
        """The last lines of the log that tell of more than its daily round."""
        lines = self.log.read_bytes()[self._log_start :].decode(errors="replace").splitlines()
        return [line for line in lines if '"info"' not in line][-LOG_LINES:]


def exchange(method: str, url: str, key: str = "", data: dict[str, Any] | None = None) -> tuple[int, bytes]:
    """One plain HTTP request, past any proxy: status and body."""
    parts = urlsplit(url)
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    body = None if data is None else json.dumps(data).encode()
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=ANSWER_WAIT_S)
    try:
        connection.request(method, parts._replace(scheme="", netloc="").geturl(), body, headers)
        response = connection.getresponse()
        return response.status, response.read()
    finally:
        connection.close()

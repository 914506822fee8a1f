"""The service of a demo: `myna serve` as a child process, and commands that use it."""

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

from demo.program import DemoFailed, Program
from myna import settings as settings_module
from myna.settings import Settings, variable

DEFAULTS = {"data": "data/demo", "chat_url": "parrot:"}
"""Defaults of the demo that differ from those of the service."""
PORTS_TRIED = 20
READY_WAIT_S = 60.0
ANSWER_WAIT_S = 150.0


def choose_settings(
    environ: Mapping[str, str], defaults: Mapping[str, str] = DEFAULTS
) -> tuple[Settings, dict[str, str], int]:
    """Returns the settings to serve with, their environment variables, and the port that was configured.

    Raises ConfigError for a wrong setting and DemoFailed if the port that the user chose is in use.
    """
    settings, sources = settings_module.load(environ)
    given = {found.name for found in sources if found.source != "default"}
    chosen = {name: value for name, value in defaults.items() if variable(name) not in given}
    last = settings.port + (1 if variable("port") in given else PORTS_TRIED)
    port = next((port for port in range(settings.port, last) if _is_free(settings.host, port)), None)
    if port is None:
        raise DemoFailed(f"port {settings.port} of {settings.host} can't be used; choose by MYNA_PORT.")
    own_url = Settings(host=settings.host, port=port).base_url  # the demo calls from this machine
    chosen |= {"port": str(port), "public_url": own_url}
    env = dict(environ) | {variable(name): value for name, value in chosen.items()}
    return settings_module.load(env)[0], env, settings.port


def _is_free(host: str, port: int) -> bool:
    try:
        socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET).close()
    except OSError:
        return False
    return True


class Service(Program):
    """A running service. It and its commands run in `folder`, else in the current folder of the demo."""

    def __init__(self, settings: Settings, env: Mapping[str, str], folder: Path | None = None) -> None:
        self.root_url = settings.base_url
        self._env = dict(env)
        self._folder = folder
        settings.data_folder.mkdir(parents=True, exist_ok=True)
        log = Path(settings.data) / "service.log"
        super().__init__("the service", "serve", log=log, env=self._env, folder=folder)

    def wait_ready(self) -> float:
        """Waits until GET /readyz answers 200. Returns the seconds that it took. Raises DemoFailed."""
        started = time.monotonic()
        while (seconds := time.monotonic() - started) < READY_WAIT_S:
            self.check()
            try:
                if exchange("GET", f"{self.root_url}/readyz")[0] == http.client.OK:
                    return seconds
            except OSError:  # it doesn't listen yet
                time.sleep(0.05)
        raise DemoFailed(f"the service wasn't ready within {READY_WAIT_S:g} s.")

    def command(self, *arguments: str) -> Any:
        """Runs `myna ARGUMENTS… --json` and returns what it printed. Raises DemoFailed."""
        ended = subprocess.run(  # noqa: S603  our own program
            [sys.executable, "-m", "myna", *arguments, "--json"],
            env=self._env, cwd=self._folder, capture_output=True, text=True, check=False,
        )  # fmt: skip
        if ended.returncode:
            raise DemoFailed(f"`myna {' '.join(arguments)}`: {(ended.stderr or ended.stdout).strip()}")
        return json.loads(ended.stdout)


def exchange(method: str, url: str, key: str = "", data: dict[str, Any] | None = None) -> tuple[int, bytes]:
    """Sends one HTTP request without a proxy. Returns its status and body."""
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

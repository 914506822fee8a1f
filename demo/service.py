"""The service of a demo: `myna serve` as a child process, commands that use it, and its user, who has an
account and a key and calls the API."""

import http.client
import json
import shlex
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from demo.output import Output
from demo.program import DemoFailed, Program
from myna import settings as settings_module
from myna.engines.audio.mp3 import duration_s
from myna.settings import Settings, variable

DEFAULTS = {"data": "data/demo", "chat_url": "parrot:"}
"""Defaults of the demo that differ from those of the service."""
PORTS_TRIED = 20
READY_WAIT_S = 60.0
ANSWER_WAIT_S = 150.0
ACCOUNT = "demo"
UNITS = 100
UNITS_LEAST = 20


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


class User:
    """Commands and calls. Every method raises DemoFailed if one fails."""

    def __init__(self, service: Service, output: Output) -> None:
        self._service = service
        self._output = output
        self.base_url = f"{service.root_url}/v1"
        self.openai_url = f"{service.root_url}/openai/v1"
        self.key = ""

    def type(self, *arguments: str) -> Any:
        """Prints and runs `myna ARGUMENTS…`. Returns its output."""
        self._output.say(f"$ myna {shlex.join(arguments)}", "cyan")
        return self._service.command(*arguments)

    def open_account(self) -> None:
        """Adds the account or grants it units, and issues a key."""
        self._output.step("An account with units, and an API key", "myna account add, myna key issue")
        accounts = {account["name"]: account for account in self._service.command("account", "list")}
        account = accounts.get(ACCOUNT)
        if account is None:
            account = self.type("account", "add", ACCOUNT, "--units", str(UNITS))
        elif account["balance"] < UNITS_LEAST:
            account = self.type("account", "grant", ACCOUNT, str(UNITS))
        scopes = ("--scope", "chat", "--scope", "tts", "--scope", "records")
        issued = self.type("key", "issue", ACCOUNT, "--name", "demo", *scopes)
        self.key = issued["key"]
        self._output.rows(
            ("balance", f"{account['balance']} units; a chat or a sentence costs 1"),
            ("key", f"{issued['masked']} (shown whole only once; the service keeps its hash)"),
        )

    def ask(self, method: str, path: str, data: dict[str, Any] | None = None) -> Any:
        """Sends a call below /v1 and returns its answer. Raises DemoFailed if it is not 200."""
        status, body = exchange(method, self.base_url + path, self.key, data)
        if status != http.client.OK:
            raise DemoFailed(f"{method} /v1{path} answered {status}: {body.decode(errors='replace')}")
        return json.loads(body)

    def download(self, url: str, path: Path) -> float:
        """Saves the audio of this URL. Returns its length in seconds."""
        status, sound = exchange("GET", url)
        seconds = duration_s(sound) if status == http.client.OK else 0.0
        if not seconds:
            raise DemoFailed(f"{url} answered {status} and no sound.")
        path.write_bytes(sound)
        return seconds

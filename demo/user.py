"""The user of the demo: runs commands, has an account and a key, and calls the API."""

import http.client
import json
import shlex
from pathlib import Path
from typing import Any

from demo.output import Output
from demo.program import DemoFailed
from demo.service import Service, exchange
from myna.engines.audio.mp3 import duration_s

ACCOUNT = "demo"
UNITS = 100
UNITS_LEAST = 20


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

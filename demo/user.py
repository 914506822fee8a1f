"""Who tries a service out: types commands, has an account and a key, and calls by plain HTTP."""

import http.client
import json
import shlex
from pathlib import Path
from typing import Any

from demo.paper import Paper
from demo.program import DemoFailed
from demo.service import Service, exchange
from myna.audio.mpeg import duration_s

ACCOUNT = "demo"
UNITS = 100
UNITS_LEAST = 20


class User:
    """One of them. Every method raises DemoFailed where the service doesn't do as it should."""

    def __init__(self, service: Service, paper: Paper) -> None:
        self._service, self._paper = service, paper
        self.base_url = f"{service.root_url}/v1"
        self.key = ""

    def type(self, *arguments: str) -> Any:
        """Runs `myna ARGUMENTS…` where it can be seen; what it says."""
        self._paper.say(f"$ myna {shlex.join(arguments)}", "cyan")
        return self._service.command(*arguments)

    def open_account(self) -> None:
        """Makes the account or fills it up, and has a key issued."""
        self._paper.step("An account with units, and an API key", "myna account add, myna key issue")
        accounts = {account["name"]: account for account in self._service.command("account", "list")}
        account = accounts.get(ACCOUNT)
        if account is None:
            account = self.type("account", "add", ACCOUNT, "--units", str(UNITS))
        elif account["balance"] < UNITS_LEAST:
            account = self.type("account", "grant", ACCOUNT, str(UNITS))
        scopes = ("--scope", "chat", "--scope", "tts", "--scope", "records")
        issued = self.type("key", "issue", ACCOUNT, "--name", "demo", *scopes)
        self.key = issued["key"]
        self._paper.rows(
            ("balance", f"{account['balance']} units; a chat or a sentence costs 1"),
            ("key", f"{issued['masked']} (shown whole only once; the service keeps its hash)"),
        )

    def ask(self, method: str, path: str, data: dict[str, Any] | None = None) -> Any:
        """The answer to a call that succeeds; `path` is below /v1."""
        status, body = exchange(method, self.base_url + path, self.key, data)
        if status != http.client.OK:
            raise DemoFailed(f"{method} /v1{path} answered {status}: {body.decode(errors='replace')}")
        return json.loads(body)

    def download(self, url: str, path: Path) -> float:
        """Saves the audio at this address; its length in seconds."""
        status, sound = exchange("GET", url)
        seconds = duration_s(sound) if status == http.client.OK else 0.0
        if not seconds:
            raise DemoFailed(f"{url} answered {status} and no sound.")
        path.write_bytes(sound)
        return seconds

"""The tour: what a caller can do, done once, with what came of it."""

import json
import time
from pathlib import Path
from typing import Any

from openai import DefaultHttpxClient, OpenAI, OpenAIError

from demo.paper import Paper
from demo.service import DemoFailed, Service, exchange
from myna.settings import Settings
from myna.sound.mpeg import duration_s

ACCOUNT = "demo"
UNITS = 100
UNITS_LEAST = 20
QUESTION = "Hello! What is a myna, in one sentence?"
SENTENCES = {
    "zh": "你好，我是八哥。今天是2026年5月1日，气温23.5度。",
    "en": "Hello, I am Myna. I speak without asking anybody else.",
}
TO_SPEAK = "请朗读：春眠不觉晓，处处闻啼鸟。"
SHOWN_CHARS = 24


class Tour:
    """One caller's way through the service. Every method raises DemoFailed where a call fails."""

    def __init__(self, service: Service, settings: Settings, paper: Paper) -> None:
        self._service, self._settings, self._paper = service, settings, paper
        self.base_url = f"{service.root_url}/v1"
        self.key = ""

    def run(self) -> None:
        """All of it."""
        self._open_account()
        self._chat()
        voices = self._voices()
        if voices:
            self._speak(voices)
            self._speak_by_chat()
            self._records()
        self._look_at_key()

    def _open_account(self) -> None:
        self._paper.step("An account with units, and an API key", "myna account add, myna key issue")
        accounts = {account["name"]: account for account in self._service.command("account", "list")}
        account = accounts.get(ACCOUNT)
        if account is None:
            account = self._command("account", "add", ACCOUNT, "--units", str(UNITS))
        elif account["balance"] < UNITS_LEAST:
            account = self._command("account", "grant", ACCOUNT, str(UNITS))
        scopes = ("--scope", "chat", "--scope", "tts", "--scope", "records")
        issued = self._command("key", "issue", ACCOUNT, "--name", "demo", *scopes)
        self.key = issued["key"]
        self._paper.rows(
            ("balance", f"{account['balance']} units; a chat or a sentence costs 1"),
            ("key", f"{issued['masked']} (shown whole only once; the service keeps its hash)"),
        )

    def _command(self, *arguments: str) -> Any:
        self._paper.say(f"$ myna {' '.join(arguments)}", "cyan")
        return self._service.command(*arguments)

    def _chat(self) -> None:
        http = DefaultHttpxClient(trust_env=False)  # no proxy
        try:
            with OpenAI(base_url=self.base_url, api_key=self.key, max_retries=0, http_client=http) as client:
                models = ", ".join(model.id for model in client.models.list())
                completion = client.chat.completions.create(
                    model="svc-chat", messages=[{"role": "user", "content": QUESTION}]
                )
        except OpenAIError as error:
            raise DemoFailed(f"the chat: {error}") from None
        self._paper.step("A chat, by the openai client", "GET /v1/models, POST /v1/chat/completions")
        answer = completion.choices[0].message.content or ""
        self._paper.rows(("models", models), ("you", QUESTION), ("myna", answer))
        if self._settings.chat_url == "parrot:":
            self._paper.say("That is the built-in parrot: it repeats what it hears. No model is set.", "dim")

    def _voices(self) -> list[dict[str, str]]:
        self._paper.step("Voices", "GET /v1/voices")
        voices: list[dict[str, str]] = self._ask("GET", "/voices")["data"]
        by_language: dict[str, list[str]] = {}
        for voice in voices:
            by_language.setdefault(voice["language"], []).append(f"{voice['voice_id']} {voice['name']}")
        rows = [(language, str(len(names)), ", ".join(names[:3])) for language, names in by_language.items()]
        if rows:
            self._paper.rows(("language", "voices", "such as"), *rows[:8])
        else:
            self._paper.say("There is none: speech is switched off or its server is away.", "dim")
        return voices

    def _speak(self, voices: list[dict[str, str]]) -> None:
        self._paper.step("Two sentences spoken, by plain HTTP", "POST /v1/tts")
        rows = []
        for language, text in SENTENCES.items():
            fitting = [voice["voice_id"] for voice in voices if voice["language"].startswith(language)]
            voice_id = fitting[0] if fitting else voices[0]["voice_id"]
            started = time.monotonic()
            spoken = self._ask("POST", "/tts", {"text": text, "voice_id": voice_id, "speed": "1.0"})
            made_ms = round((time.monotonic() - started) * 1000)
            path, seconds = self._download(spoken["audio_url"], f"sentence-{language}.mp3")
            rows.append((voice_id, f"{seconds:.1f} s", f"{made_ms} ms", str(path)))
        self._paper.rows(("voice", "length", "made in", "listen to"), *rows)

    def _speak_by_chat(self) -> None:
        self._paper.step("A chat that asks for speech gets an audio address", "POST /v1/chat/completions")
        request = {"model": "svc-chat", "messages": [{"role": "user", "content": TO_SPEAK}]}
        url = self._ask("POST", "/chat/completions", request)["choices"][0]["message"]["content"]
        path, seconds = self._download(url, "sentence-by-chat.mp3")
        self._paper.rows(("you", TO_SPEAK), ("myna", url), ("listen to", f"{path} ({seconds:.1f} s)"))

    def _records(self) -> None:
        self._paper.step("The account's speech jobs", "GET /v1/records?limit=3")
        rows = [
            (str(record["id"]), record["status_text"], str(record["chars"]), record["text"][:SHOWN_CHARS])
            for record in self._ask("GET", "/records?limit=3")["data"]
        ]
        self._paper.rows(("id", "status", "chars", "text begins"), *rows)

    def _look_at_key(self) -> None:
        self._paper.step("What the key has used", "GET /v1/me")
        stats = self._ask("GET", "/me")["stats"]
        self._paper.rows(
            ("calls", f"{stats['calls']}, of which {stats['ok_calls']} delivered"),
            ("units", f"{stats['cost']} (looking costs nothing)"),
        )

    def _ask(self, method: str, path: str, data: dict[str, Any] | None = None) -> Any:
        status, body = exchange(method, self.base_url + path, self.key, data)
        if status != 200:
            raise DemoFailed(f"{method} /v1{path} answered {status}: {body.decode(errors='replace')}")
        return json.loads(body)

    def _download(self, url: str, name: str) -> tuple[Path, float]:
        """The audio at this address, saved in the data folder; its path and its length in seconds."""
        status, sound = exchange("GET", url)
        seconds = duration_s(sound) if status == 200 else 0.0
        if not seconds:
            raise DemoFailed(f"{url} answered {status} and no sound.")
        path = Path(self._settings.data) / name
        path.write_bytes(sound)
        return path, seconds

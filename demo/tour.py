"""The demo of the API: each call once, with its result."""

import time
from pathlib import Path

from openai import DefaultHttpxClient, OpenAI, OpenAIError

from demo.output import Output
from demo.program import DemoFailed
from demo.service import User
from myna.settings import Settings

QUESTION = "Hello! What is a myna, in one sentence?"
SENTENCES = (
    ("1-mandarin", "zh", "你好，我是八哥。今天是2026年5月1日，气温23.5度。"),
    ("2-english", "en", "Hello, I am Myna. I speak without asking anybody else."),
    ("3-mandarin-with-english", "zh", "我们的 team 用 Python 写了一个 server，明天下午三点 review。"),
)
"""The name of the file, the language of the voice, and the text."""
SOUNDS = "listen"
"""The folder of the sounds, in the data folder."""
TO_SPEAK = "请朗读：春眠不觉晓，处处闻啼鸟。"
SHOWN_CHARS = 24


class Tour:
    """The calls of one client. Every method raises DemoFailed if a call fails."""

    def __init__(self, user: User, settings: Settings, output: Output) -> None:
        self._user = user
        self._settings = settings
        self._output = output

    def run(self) -> None:
        """All of it."""
        self._user.open_account()
        self._chat()
        voices = self._voices()
        if voices:
            self._speak(voices)
            self._speak_by_chat()
            self._records()
        self._show_usage()

    def _chat(self) -> None:
        http = DefaultHttpxClient(trust_env=False)  # no proxy
        url, key = self._user.openai_url, self._user.key
        try:
            with OpenAI(base_url=url, api_key=key, max_retries=0, http_client=http) as client:
                models = ", ".join(model.id for model in client.models.list())
                stream = client.chat.completions.create(
                    model="svc-chat", stream=True, messages=[{"role": "user", "content": QUESTION}]
                )
                answer = "".join(chunk.choices[0].delta.content or "" for chunk in stream if chunk.choices)
        except OpenAIError as error:
            raise DemoFailed(f"the chat: {error}") from None
        self._output.step("A streamed chat, by the openai client", "POST /openai/v1/chat/completions")
        self._output.rows(("models", models), ("you", QUESTION), ("myna", answer))
        if self._settings.chat_url == "parrot:":
            self._output.say("That is the built-in parrot: it repeats each message. No model is set.", "dim")

    def _voices(self) -> list[dict[str, str]]:
        self._output.step("Voices", "GET /v1/voices")
        voices: list[dict[str, str]] = self._user.ask("GET", "/voices")["data"]
        by_language: dict[str, list[str]] = {}
        for voice in voices:
            by_language.setdefault(voice["language"], []).append(f"{voice['voice_id']} {voice['name']}")
        rows = [(language, str(len(names)), ", ".join(names[:3])) for language, names in by_language.items()]
        if rows:
            self._output.rows(("language", "voices", "such as"), *rows[:8])
        else:
            self._output.say("None: speech is off, or its server is unavailable.", "dim")
        return voices

    def _speak(self, voices: list[dict[str, str]]) -> None:
        self._output.step("Three sentences spoken, by plain HTTP", "POST /v1/tts")
        rows = []
        for name, language, text in SENTENCES:
            fitting = [voice["voice_id"] for voice in voices if voice["language"].startswith(language)]
            voice_id = fitting[0] if fitting else voices[0]["voice_id"]
            started = time.monotonic()
            spoken = self._user.ask("POST", "/tts", {"text": text, "voice_id": voice_id, "speed": "1.0"})
            made_ms = round((time.monotonic() - started) * 1000)
            path, seconds = self._download(spoken["audio_url"], f"{name}.mp3")
            rows.append((voice_id, f"{seconds:.1f} s", f"{made_ms} ms", str(path)))
        self._output.rows(("voice", "length", "made in", "listen to"), *rows)

    def _speak_by_chat(self) -> None:
        self._output.step("A chat that asks for speech gets an audio address", "POST /v1/chat/completions")
        request = {"model": "svc-chat", "messages": [{"role": "user", "content": TO_SPEAK}]}
        answer = self._user.ask("POST", "/chat/completions", request)
        url = answer["choices"][0]["message"]["content"]
        path, seconds = self._download(url, "4-by-chat.mp3")
        self._output.rows(("you", TO_SPEAK), ("myna", url), ("listen to", f"{path} ({seconds:.1f} s)"))

    def _records(self) -> None:
        self._output.step("The account's speech jobs", "GET /v1/records?limit=3")
        rows = [
            (str(record["id"]), record["status_text"], str(record["chars"]), record["text"][:SHOWN_CHARS])
            for record in self._user.ask("GET", "/records?limit=3")["data"]
        ]
        self._output.rows(("id", "status", "chars", "text begins"), *rows)

    def _show_usage(self) -> None:
        self._output.step("The key's usage", "GET /v1/me")
        stats = self._user.ask("GET", "/me")["stats"]
        self._output.rows(
            ("calls", f"{stats['calls']}, of which {stats['ok_calls']} delivered"),
            ("units", f"{stats['cost']} (reads are free)"),
        )

    def _download(self, url: str, name: str) -> tuple[Path, float]:
        path = Path(self._settings.data, SOUNDS, name)
        path.parent.mkdir(exist_ok=True)
        return path, self._user.download(url, path)

"""A service in this process whose voice speaks when the test says so, and a client that reads chunk by
chunk. A file's tests share the service; each of them is another visitor."""

import asyncio
import contextlib
import itertools
import json
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from myna import config
from myna.accounts import accounts
from myna.actions.accounts import AddAccount
from myna.actions.keys import IssueKey
from myna.actions.site import SetSetting
from myna.billing import audit
from myna.engines.interface import (
    NO_CLIENT,
    Client,
    EngineLimits,
    EngineVoice,
    SoundPart,
    Utterance,
    WordTime,
)
from myna.engines.kokoro.engine import Kokoro
from myna.engines.kokoro.job import RATE_HZ, KokoroModel
from myna.engines.registry import DEFAULT_SPEECH, KOKORO
from myna.http import server
from myna.http.server import Server
from myna.lib.sandbox import AllowedPaths
from myna.server import app, service
from myna.settings import Settings
from myna.store.batch import CallState, TaskStatus
from tests.http.local_server import RawConnection
from tests.rig.actors import perform
from tests.rig.waiting import SOON_S, free_port, until

UNITS = 100
_numbers = itertools.count(1)
PART_S = 1.0
VOICES = (
    EngineVoice("zf_xiaobei", "小贝", "female", "zh-CN"),
    EngineVoice("af_alloy", "Alloy", "female", "en-US"),
)


def tone(seconds: float = PART_S) -> bytes:
    """A sound of 440 Hz."""
    phase = np.arange(round(seconds * RATE_HZ)) * 2 * np.pi * 440 / RATE_HZ
    return (np.sin(phase) * 8000).astype("<i2").tobytes()


def word_times_of(part: int) -> list[WordTime]:
    """The one word of the part with this number."""
    return [WordTime(f"word{part} ", part - 1.0, part - 0.5)]


class ScriptedVoice(Kokoro):
    """Kokoro without a model. It returns one part of the sound, or an error, for each `say`."""

    def __init__(self) -> None:
        model = KokoroModel(b"", threads=1, provider="cpu")
        super().__init__(model, [], EngineLimits(processes=1, queue_max=9, job_deadline_s=60))
        self._script: asyncio.Queue[bytes | Exception | None] = asyncio.Queue()
        self.asked = 0
        self.said = 0
        self.ended = 0

    @property
    def voices(self) -> tuple[EngineVoice, ...]:
        return VOICES

    def say(self, *parts: bytes | Exception | None) -> None:
        """The next parts of the sound; None is its end."""
        for part in parts:
            self._script.put_nowait(part)

    def forget(self) -> None:
        """Nothing was asked, and nothing is to be said."""
        self.asked = self.said = self.ended = 0
        while not self._script.empty():
            self._script.get_nowait()

    async def start(self, files: AllowedPaths | None = None) -> None:
        """There are no processes."""

    def up(self) -> bool:
        return True

    async def sound(
        self, utterance: Utterance, deadline_s: float, client: Client = NO_CLIENT
    ) -> AsyncGenerator[SoundPart, None]:
        self.asked += 1
        parts = itertools.count(1)
        try:
            while (part := await self._script.get()) is not None:
                if isinstance(part, Exception):
                    raise part
                self.said += 1
                yield SoundPart(part, 0.0, words=word_times_of(next(parts)))
        finally:
            self.ended += 1


@dataclass
class Answer:
    """A response as it arrives. `whole`: the terminating chunk has arrived."""

    connection: RawConnection
    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    whole: bool = False

    async def head(self) -> "Answer":
        async with asyncio.timeout(SOON_S):
            lines = (await self.connection.reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        self.status = int(lines[0].split(" ")[1])
        fields = [line.partition(": ") for line in lines[1:]]
        self.headers = {name.lower(): value for name, _, value in fields}
        return self

    async def more(self) -> bytes:
        """The next chunk; empty at the end of the body, or of the connection."""
        reader = self.connection.reader
        try:
            async with asyncio.timeout(SOON_S):
                size = int(await reader.readuntil(b"\r\n"), 16)
                chunk = (await reader.readexactly(size + 2))[:-2]
        except (asyncio.IncompleteReadError, ConnectionError):
            return b""
        self.whole = not size
        self.body += chunk
        return chunk

    async def rest(self) -> bytes:
        """The body to its end."""
        if "content-length" in self.headers:
            async with asyncio.timeout(SOON_S):
                self.body = await self.connection.reader.readexactly(int(self.headers["content-length"]))
            self.whole = True
        else:
            while await self.more():
                pass
        return self.body

    @property
    def error(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.body)["error"]
        return found


class Site(service.Service):
    """The service; its audio is in `settings.data_folder / "audio"`."""

    started: "Site | None" = None

    async def _start(self) -> None:
        await super()._start()
        Site.started = self


class Visitor:
    """A key of an account with UNITS units, and the running site."""

    def __init__(
        self, site: Site, server: Server, port: int, voice: ScriptedVoice, key: str, account: str
    ) -> None:
        self.site = site
        self.server = server
        self.voice = voice
        self.port = port
        self.key = key
        self._account = account
        self._open: list[RawConnection] = []
        self.changed_settings: dict[str, str] = {}

    @contextlib.asynccontextmanager
    async def newcomer(self) -> AsyncIterator["Visitor"]:
        """A visitor with an account of its own, for whom the site is as it was at its start. Waits until no
        call is open when it leaves."""
        self.voice.forget()
        name = f"ann-{next(_numbers)}"
        key = await _key(self.site, name)
        visitor = Visitor(self.site, self.server, self.port, self.voice, key, name)
        try:
            yield visitor
        finally:
            await visitor.close()
            self.voice.say(None)
            await visitor.balance_becomes(await visitor.balance())
            for setting, value in visitor.changed_settings.items():
                await perform(self.site.db, SetSetting(name=setting, value=value))
            await self.site.config.refresh()
            for channel in (KOKORO, DEFAULT_SPEECH):
                self.site.channels.circuits.succeeded(channel)
        assert visitor.spooled() == []

    async def post(
        self, path: str, body: bytes | dict[str, Any], headers: Mapping[str, str] | None = None
    ) -> Answer:
        """Sends a request and does not wait for its response."""
        connection = RawConnection(*await asyncio.open_connection("127.0.0.1", self.port))
        self._open.append(connection)
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        lines = {
            "Host": "x",
            "Authorization": f"Bearer {self.key}",
            "Content-Length": str(len(content)),
            **(headers or {}),
        }
        head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
        connection.send(f"POST {path} HTTP/1.1\r\n{head}\r\n".encode() + content)
        return Answer(connection)

    async def speak(
        self, text: str = "你好。", *, headers: Mapping[str, str] | None = None, **more: Any
    ) -> Answer:
        """POST /audio/speech."""
        body = {"model": "tts-1", "input": text, "voice": "alloy", "response_format": "pcm", **more}
        return await self.post("/openai/v1/audio/speech", body, headers)

    async def another_key(self) -> str:
        """A second key of the account."""
        return (
            await perform(self.site.db, IssueKey(account=self._account, name="phone", scope=("chat",)))
        ).key

    async def balance(self) -> int:
        return (await accounts.find(self.site.db, self._account)).balance

    async def balance_becomes(self, units: int) -> None:
        """Waits until no call is open, and compares."""
        async with asyncio.timeout(SOON_S):
            while await self.open_calls():  # noqa: ASYNC110 - the database has no event for it
                await asyncio.sleep(0.005)
        assert await self.balance() == units

    async def open_calls(self) -> int:
        """How many calls of the site are neither kept nor refunded."""
        ((count,),) = await self.site.db.fetch(
            f"SELECT COUNT(*) FROM calls WHERE state = {CallState.OPEN.value}"
        )
        return int(count)

    async def audit(self) -> list[str]:
        """The breaches, the hashes of the audio included."""
        report = await audit.run(self.site.db, self.site.audio, full=True, hash_audio=True)
        return [breach.rule for breach in report.breaches]

    async def task(self) -> tuple[int, str]:
        """Status and audio of the newest task."""
        ((status, audio),) = await self.site.db.fetch(
            "SELECT status, audio FROM tasks ORDER BY id DESC LIMIT 1"
        )
        return int(status), str(audio)

    async def stored(self) -> bytes:
        """The mp3 of the newest task, which is completed."""
        status, name = await self.task()
        assert status == TaskStatus.COMPLETED
        stored = self.site.audio.stat(name)
        assert stored is not None
        return self.site.audio.read(name, 0, stored.size_bytes)

    async def reason(self) -> tuple[int, str]:
        """State and reason of the newest call."""
        ((state, reason),) = await self.site.db.fetch(
            "SELECT state, reason FROM calls ORDER BY id DESC LIMIT 1"
        )
        return int(state), str(reason)

    def spooled(self) -> list[Path]:
        """Temporary files."""
        return list(self.site.spool.folder.iterdir())

    async def set(self, name: str, value: str) -> None:
        """Changes a site setting."""
        before = {one.name: one.value for one in config.applied(self.site.config.current)}
        self.changed_settings.setdefault(name, str(before[name]))
        await perform(self.site.db, SetSetting(name=name, value=value))

    async def close(self) -> None:
        for connection in self._open:
            await connection.disconnect()


async def _key(site: Site, account: str) -> str:
    """A key of a new account."""
    made = await perform(site.db, AddAccount(name=account, units=UNITS))
    return (await perform(site.db, IssueKey(account=made.name, name="laptop", scope=("chat", "tts")))).key


@contextlib.asynccontextmanager
async def scripted_site(
    folder: Path, patched: pytest.MonkeyPatch, speech: str = "kokoro", **settings: Any
) -> AsyncIterator[Visitor]:
    """Starts the site, with the scripted voice or with the speech server at a URL. At its end its books are
    audited, and no temporary file is left."""
    voice = ScriptedVoice()
    engines = {KOKORO: voice} if speech == "kokoro" else {}
    patched.setattr(service, "speech_engines", lambda *_: engines)
    chosen = Settings(
        data=str(folder / "data"), port=free_port(), speech=speech, chat_url="parrot:", **settings
    )
    chosen.data_folder.mkdir(exist_ok=True)
    running = server.Server(server.configure(app.create(chosen, {}, Site), chosen))
    task = asyncio.create_task(running.serve(sockets=server.listen(chosen)))
    await until(lambda: running.started)
    site = Site.started
    assert site is not None
    # The voices of a server are looked up after the start.
    await until(lambda: any(one.voices for one in site.channels.speech(site.config.current)))
    visitor = Visitor(site, running, chosen.port, voice, await _key(site, "ann"), "ann")
    try:
        yield visitor
        assert await visitor.audit() == []
        assert visitor.spooled() == []
    finally:
        await visitor.close()
        running.should_exit = True
        await task

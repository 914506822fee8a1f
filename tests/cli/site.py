"""A database and files to back up, restore and move."""

import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from tests.rig.calls import call
from tests.rig.samples import write_voice
from tests.rig.service import Key, Service

CHAT = {"model": "svc-chat", "messages": [{"role": "user", "content": "Hi"}]}


@dataclass(frozen=True)
class Site:
    """The account `talkative` has a key, has chatted and spoken, and had a voice cloned.

    `audio` is the name of the file it spoke, `voice` the id of its voice.
    """

    service: Service
    key: Key
    audio: str
    voice: str

    def copied_to(self, service: Service) -> "Site":
        """Copies the files to the folder of another service, whose PostgreSQL database is a copy already."""
        shutil.copytree(self.service.folder / "data", service.folder / "data", dirs_exist_ok=True)
        return replace(self, service=service)

    def post(self, path: str, data: object) -> Any:
        return call("POST", f"{self.service.base_url}{path}", key=self.key.plain, data=data)

    def chat(self) -> None:
        assert self.post("/chat/completions", CHAT).status == 200

    @contextmanager
    def busy(self) -> Iterator[None]:
        """Sends calls during the block."""
        over = threading.Event()
        failed: list[BaseException] = []

        def send_calls() -> None:
            while not over.is_set():
                try:
                    self.chat()
                except BaseException as error:
                    failed.append(error)
                    raise

        threads = [threading.Thread(target=send_calls) for _ in range(4)]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            over.set()
            for thread in threads:
                thread.join()
        assert not failed


def furnished(service: Service) -> Site:
    """Starts the service, fills its database and stops it."""
    service.start()
    site = Site(service, service.account(name="talkative", units=1000).key(), audio="", voice="")
    site.chat()
    audio = site.post("/tts", {"text": "你好"}).json["audio_url"].rpartition("/")[2]
    write_voice(service.folder / "ann.wav", 5.0)
    voice = service.cli(
        *("voice", "clone", "talkative", "--name", "Ann", "--language", "en"),
        *("--sample", "ann.wav", "--transcript", "What Ann says.", "--consent"),
    )["voice_id"]
    assert service.stop() == 0
    return replace(site, audio=audio, voice=voice)

"""What watches over the service has its answer in time, whatever the disk does."""

import asyncio
import threading
import time
from pathlib import Path

import msgspec
import pytest
from starlette.requests import Request

from myna.api.health import READY_WAIT_S, HealthApi
from myna.store.audio import AudioStore
from tests.store.books import Books

pytestmark = pytest.mark.anyio


async def test_a_disk_that_stands_still_is_no_storage_and_holds_up_nothing_else(
    sqlite_books: Books, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    moves = threading.Event()
    health = HealthApi(sqlite_books.db, AudioStore(tmp_path / "audio"))
    monkeypatch.setattr("pathlib.Path.write_bytes", lambda *_: moves.wait(60))
    began_s = time.monotonic()

    asked = [asyncio.create_task(health.readyz(Request({"type": "http"}))) for _ in range(40)]
    await asyncio.sleep(0.1)
    assert await asyncio.to_thread(lambda: "at once") == "at once"
    answers = await asyncio.gather(*asked)
    assert health._disk.waiting == 0  # one probe is under way, and no other one waits for its turn

    assert time.monotonic() - began_s < READY_WAIT_S + 5
    assert {answer.status_code for answer in answers} == {503}
    checks = msgspec.json.decode(bytes(answers[0].body))["checks"]
    assert checks == {"running": True, "database": True, "storage": False}
    moves.set()
    monkeypatch.undo()
    assert (await health.readyz(Request({"type": "http"}))).status_code == 200

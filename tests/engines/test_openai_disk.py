"""Speech servers: long texts in pieces, and disks that stall."""

import asyncio
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from myna.engines.interface import EngineBusy, EngineTimedOut
from myna.engines.openai.api import cut
from myna.engines.openai.engine import OpenAISpeech
from myna.lib.files import QUEUE_MAX, THREADS, DiskExecutor
from tests.engines.conftest import HELLO, names, speak, until
from tests.engines.speech_upstream import SpeechUpstream
from tests.rig.waiting import LoopClock

pytestmark = pytest.mark.anyio

LONG_S = 600.0


async def _idle(disk: DiskExecutor) -> None:
    """Waits until every thread has finished its jobs."""
    everybody = threading.Barrier(THREADS)
    await asyncio.gather(*(disk.run(everybody.wait) for _ in range(THREADS)))
    await disk.run_metadata(lambda: None)


async def test_a_stalled_disk_is_a_timeout(
    engine: OpenAISpeech, disk: DiskExecutor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It blocks nothing else, and leaves no file when it responds again."""
    asked, moves = threading.Event(), threading.Event()

    def block_forever(_: int) -> None:
        asked.set()
        assert moves.wait(LONG_S)

    monkeypatch.setattr("myna.lib.files.os.fsync", block_forever)
    clock = LoopClock()
    call = asyncio.create_task(engine.speak(HELLO, tmp_path / "a.mp3", LONG_S))
    await until(asked.is_set)
    clock.move(LONG_S)

    with pytest.raises(EngineTimedOut, match=r"^The disk took too long to store the audio\.$"):
        await call

    assert await asyncio.to_thread(lambda: "at once") == "at once"
    moves.set()
    await _idle(disk)
    assert names(tmp_path) == []


async def test_a_full_disk_queue_refuses_calls(
    engine: OpenAISpeech, disk: DiskExecutor, upstream: SpeechUpstream, tmp_path: Path
) -> None:
    moves = threading.Event()
    blocked = [asyncio.ensure_future(disk.run(moves.wait)) for _ in range(THREADS + QUEUE_MAX)]
    await until(disk.full)
    with pytest.raises(EngineBusy):
        await speak(engine, tmp_path)
    assert upstream.requests == [] and names(tmp_path) == []
    moves.set()
    await asyncio.gather(*blocked)
    assert (await speak(engine, tmp_path)).seconds > 0


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("短句。", ["短句。"]),
        ("一二三。四五六七八九十", ["一二三。", "四五六七八九十"]),
        ("一二。三四。五六七八九十", ["一二。三四。", "五六七八九十"]),
        ("他说：“走吧。”然后就走了", ["他说：“走吧。”", "然后就走了"]),
        ("一二三四五六七八九。十", ["一二三四五六七八九。", "十"]),
        ("等等……十一二三四五六七", ["等等……", "十一二三四五六七"]),
        ("一行\n二行三四五六七八", ["一行\n", "二行三四五六七八"]),
        ("Pi is 3.14159265", ["Pi is ", "3.14159265"]),
        ("Go on. Stop now", ["Go on. ", "Stop now"]),
        ("ninechar. ten", ["ninechar. ", "ten"]),
        ("tencharss. x", ["tencharss.", " x"]),
        ("一二三，四五六七八九十", ["一二三，", "四五六七八九十"]),
        ("1,234,567,890", ["1,234,567,", "890"]),
        ("one two three", ["one two ", "three"]),
        ("无标点无空格的一长串文字", ["无标点无空格的一长串", "文字"]),
        ("", []),
        (" \n ", []),
        ("一。" + " " * 30, ["一。        "]),
    ],
)
def test_a_text_is_split_at_the_best_place_that_fits(text: str, pieces: list[str]) -> None:
    assert cut(text, 10) == pieces


@given(st.text(alphabet="ab，。.!?, \n”…字", max_size=300), st.integers(1, 40))
def test_only_blanks_are_dropped_and_no_piece_is_too_long(text: str, max_chars: int) -> None:
    pieces = cut(text, max_chars)

    assert all(0 < len(piece) <= max_chars for piece in pieces)
    assert "".join("".join(pieces).split()) == "".join(text.split())

"""Sound that is converted and read: the transcoder, speech of nodes, recordings in part, transcripts."""

import asyncio
import contextlib
import os
import signal
import wave
from collections.abc import AsyncIterator
from pathlib import Path

import numpy as np
import pytest
import soundfile

from myna.engines.audio.encoders import FORMATS, RATE_HZ
from myna.engines.interface import EngineCrashed, NoAudio
from myna.engines.media.job import Script, Segment, Word
from myna.engines.media.media import Transcoder
from myna.engines.media.whisper import Writer, punctuated
from myna.lib.sandbox import AllowedPaths
from myna.wire.openai import SpeechFormat
from tests.audio.test_encoders import heard
from tests.rig.disks import StuckFile
from tests.rig.samples import voice, write_mp3
from tests.rig.waiting import until

SECONDS = 4


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("transcoder")
    (made / "audio").mkdir()
    (made / "spool").mkdir()
    write_mp3(made / "audio" / "a.mp3", voice(SECONDS))
    return made


@pytest.fixture(scope="module")
async def transcoder(folders: Path) -> AsyncIterator[Transcoder]:
    files = AllowedPaths.of(reads=(folders / "audio",), writes=(folders / "spool",))
    transcoder = Transcoder(files=files)
    yield transcoder
    await transcoder.close()


@pytest.mark.parametrize("kind", FORMATS)
async def test_an_mp3_becomes_each_format(transcoder: Transcoder, folders: Path, kind: SpeechFormat) -> None:
    target = folders / "spool" / kind
    done = await transcoder.transcode(folders / "audio" / "a.mp3", target, kind)
    data = target.read_bytes()
    assert (round(done.seconds, 2), done.size_bytes) == (SECONDS, len(data))
    samples = len(heard(data, kind))
    assert abs(samples / RATE_HZ - SECONDS) < 0.15
    if kind in ("wav", "flac"):
        assert soundfile.info(target).frames == samples
    if kind == "wav":
        with wave.open(str(target)) as file:
            assert file.getnframes() == samples


async def test_sound_of_another_rate_keeps_pitch_and_length(transcoder: Transcoder, folders: Path) -> None:
    tone = np.sin(np.arange(SECONDS * 22_050) * 2 * np.pi * 440 / 22_050) * 0.3
    source, target = folders / "audio" / "tone.mp3", folders / "spool" / "tone"
    soundfile.write(source, tone, 22_050, format="MP3")
    await transcoder.transcode(source, target, "pcm")
    samples = np.frombuffer(target.read_bytes(), "<i2")
    spectrum = np.abs(np.fft.rfft(samples))
    assert abs(len(samples) / RATE_HZ - SECONDS) < 0.1
    assert abs(float(spectrum.argmax()) * RATE_HZ / len(samples) - 440) < 2


async def test_a_file_that_is_no_mp3_is_refused(transcoder: Transcoder, folders: Path) -> None:
    (folders / "audio" / "bad.mp3").write_bytes(b"<html>" * 1000)
    with pytest.raises(NoAudio):
        await transcoder.transcode(folders / "audio" / "bad.mp3", folders / "spool" / "bad", "wav")


async def test_a_child_that_is_killed_fails_its_file_and_the_next_one_is_converted(
    transcoder: Transcoder, folders: Path
) -> None:
    stuck = StuckFile(folders / "audio" / "stuck.mp3")
    with contextlib.closing(stuck):
        work = transcoder.transcode(stuck.path, folders / "spool" / "killed", "wav")
        running = asyncio.ensure_future(work)
        await until(stuck.has_reader)
        os.kill(transcoder.pids()[0], signal.SIGKILL)
        with pytest.raises(EngineCrashed):
            await running
    await until(lambda: bool(transcoder.pids()))
    done = await transcoder.transcode(folders / "audio" / "a.mp3", folders / "spool" / "next", "opus")
    assert round(done.seconds, 2) == SECONDS


@pytest.mark.parametrize(
    ("heard", "text"),
    [
        ("今天天气很好,我们去公园吧.", "今天天气很好，我们去公园吧。"),
        ("你好吗? Yes, I am fine.", "你好吗？Yes, I am fine."),
        ("我有3,000元,3.5公斤,10:30见!", "我有3,000元，3.5公斤，10:30见！"),
        ("我们用AI.", "我们用AI。"),
        ("增长了15%.", "增长了15%。"),
        ("他说:OK,好的", "他说：OK，好的"),
        ("今天 天气 很好", "今天，天气，很好"),
        ("等等...", "等等……"),
        ("今天(星期三)去", "今天（星期三）去"),
        ("先用Wi-Fi,然后登录app,", "先用Wi-Fi，然后登录app，"),
        ("“你好”,他说", "“你好”，他说"),
        ("為﹐為﹑４", "為，為、4"),
        ("好，好。", "好，好。"),
        ("Hello, it is 3.5.", "Hello, it is 3.5."),
        ("", ""),
    ],
)
def test_punctuation_beside_chinese_characters_has_full_width(heard: str, text: str) -> None:
    assert punctuated(heard) == text


MARKS = str.maketrans("", "", "，。")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("script", "heard", "text"),
    [
        (Script.SIMPLIFIED, "乾隆皇帝看著乾淨的頭髮,皇后在後面.", "乾隆皇帝看着干净的头发，皇后在后面。"),
        (Script.SIMPLIFIED, "著名作家在这里。", "著名作家在这里。"),
        (Script.TAIWAN, "头发干净,皇后在后面发面.", "頭髮乾淨，皇后在後面發麵。"),
        (Script.TAIWAN, "為什麼在裡面。", "為什麼在裡面。"),
        (Script.HONG_KONG, "里面的群众", "裏面的羣眾"),
    ],
)
def test_a_transcript_is_in_one_script(script: Script, heard: str, text: str) -> None:
    """Of a word alone 乾 would be 干, whose neighbours decide. Needs OpenCC, which the extra `hear` has."""
    words = [Word(character, 0.0, 1.0) for character in heard]
    segment = Segment(0, 0, 0.0, 1.0, heard, [], 0.0, -0.5, 1.0, 0.1)
    segments, found = Writer().written([segment], words, script)
    assert [one.text for one in segments] == [text]
    assert "".join(one.word for one in found if one.word not in ",.，。") == text.translate(MARKS)

"""What is sent to a speech server and read from it: pieces of long texts, and lists of voices."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from myna.engines.interface import EngineFailed, EngineVoice
from myna.engines.openai.api import cut, read_voices
from myna.engines.openai.engine import OpenAISpeech
from myna.http.client import HttpClient
from tests.engines.conftest import speech_server
from tests.engines.speech_upstream import SpeechUpstream
from tests.http_client.faulty_server import answer


def voice(voice_id: str, gender: str = "neutral", language: str = "und", name: str = "") -> EngineVoice:
    return EngineVoice(voice_id=voice_id, name=name or voice_id, gender=gender, language=language)


BELLA = voice("af_bella", "female", "en-US")
YUNXI = voice("zm_yunxi", "male", "zh-CN")
AMY = voice("amy", "female", "en-GB", "Amy")
AMY_OBJECT = {"name": "Amy", "gender": "Female", "language": "en_gb"}


def read(answer: Any) -> tuple[EngineVoice, ...]:
    return read_voices(msgspec.json.encode(answer))


@pytest.mark.parametrize(
    ("listed", "voices"),
    [
        (["af_bella", "zm_yunxi"], (BELLA, YUNXI)),
        ({"voices": ["af_bella", "zm_yunxi"]}, (BELLA, YUNXI)),
        ({"voices": [{"id": "amy", **AMY_OBJECT}]}, (AMY,)),
        ({"voices": [{"voice_id": "amy", **AMY_OBJECT}]}, (AMY,)),
        ({"object": "list", "data": [{"id": "af_bella"}, {"id": "amy", **AMY_OBJECT}]}, (BELLA, AMY)),
        ({"voices": [{"name": "zm_yunxi"}]}, (YUNXI,)),
        ({"voices": {"amy": AMY_OBJECT, "af_bella": None}}, (AMY, BELLA)),
        ({"voices": []}, ()),
        ([{"id": "x", "gender": "男", "lang": "zh"}], (voice("x", "male", "zh"),)),
        ([{"id": "x", "language": "English"}], (voice("x"),)),
        ([{"id": "x", "language": "zh_hant_TW"}], (voice("x", "neutral", "zh-Hant-TW"),)),
        ([{"id": "af_x", "gender": "m", "language": "de"}], (voice("af_x", "male", "de"),)),
        (["xf_none", "alloy"], (voice("xf_none"), voice("alloy"))),
    ],
)
def test_voices_are_parsed_in_every_format(listed: Any, voices: tuple[EngineVoice, ...]) -> None:
    assert read(listed) == voices


def test_an_entry_without_a_usable_id_is_ignored() -> None:
    texts = ["", "  ", "a\nb", "a\u200bb", "\x1b[31m", "x" * 101]
    bad: list[Any] = [*texts, None, 7, [], {}, {"id": 5}, {"id": None}]

    assert read([*bad, "af_bella"]) == (BELLA,)


def test_duplicates_and_voices_after_the_first_500_are_ignored() -> None:
    voices = read(["af_bella", "af_bella", *(f"v{i}" for i in range(1000))])

    assert len(voices) == 500
    assert voices[1].voice_id == "v0"


@pytest.mark.parametrize(
    "body", [b"", b"<html>", b"7", b'"alloy"', b"{}", b'{"voices":"alloy"}', b"\xff", b"[" * 9999]
)
def test_a_response_without_a_list_is_an_error(body: bytes) -> None:
    with pytest.raises(ValueError):
        read_voices(body)


@pytest.fixture
def engine(outbound: HttpClient, upstream: SpeechUpstream) -> OpenAISpeech:
    return speech_server(outbound, upstream.base, key="k", model="a/b c", answer_max_bytes=1)


async def test_servers_are_asked_for_a_models_voices(engine: OpenAISpeech, upstream: SpeechUpstream) -> None:
    upstream.voices = answer(b'{"voices":["af_bella"]}')

    await engine.start()
    assert engine.voices == (BELLA,)

    [request] = upstream.requests
    assert request.line == "GET /v1/audio/voices?model=a%2Fb%20c HTTP/1.1"
    assert request.header("authorization") == "Bearer k"


@pytest.mark.parametrize("status", ["404 Not Found", "405 Method Not Allowed", "501 Not Implemented"])
async def test_a_server_without_a_list_has_the_classic_voices(
    engine: OpenAISpeech, upstream: SpeechUpstream, status: str
) -> None:
    upstream.voices = answer(b"{}", status)

    await engine.start()

    voices = engine.voices
    assert [voice.voice_id for voice in voices] == ["alloy", "echo", "fable", "nova", "onyx", "shimmer"]
    assert {(voice.gender, voice.language) for voice in voices} == {("neutral", "und")}


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (answer(b"{}", "401 Unauthorized"), "answered 401"),
        (answer(b"{}", "500 Internal Server Error"), "answered 500"),
        (answer(b"<html>"), "can't be read"),
        (answer(b"[" * 100_000), "can't be read"),
        (answer(b"x" * 1_048_577), "more than is taken"),
    ],
)
async def test_a_failed_request_for_the_list_is_a_failure(
    engine: OpenAISpeech, upstream: SpeechUpstream, data: bytes, message: str
) -> None:
    upstream.voices = data

    with pytest.raises(EngineFailed, match=message):
        await engine.start()


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

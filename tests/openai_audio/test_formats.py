"""Requests for transcripts, transcripts in each format, and the voices that OpenAI's names mean. Pure."""

import json
from pathlib import Path

import pytest

from myna.engines.media.job import Script, Segment, Transcript, Word
from myna.gateway.transcripts import TranscriptFormat, TranscriptionRequest, Upload, encoded, read
from myna.wire.openai import voice_id_of, voice_mapping


def segment(number: int, start: float, end: float, text: str) -> Segment:
    return Segment(
        id=number,
        seek=0,
        start=start,
        end=end,
        text=text,
        tokens=[1, 2],
        temperature=0.0,
        avg_logprob=-0.5,
        compression_ratio=1.2,
        no_speech_prob=0.1,
    )


SPOKEN = Transcript(
    language="zh",
    duration=3725.5,
    segments=[segment(0, 0.0, 1.25, " 你好。"), segment(1, 3661.0, 3725.0004, " 再见。")],
    words=[Word("你好", 0.0, 1.0)],
)
SIGNS = Transcript(language="en", duration=1.0, segments=[segment(0, 0.0, 1.0, "a < b & c")], words=[])
SILENT = Transcript(language="en", duration=2.0, segments=[], words=[])


def of(kind: TranscriptFormat, transcript: Transcript = SPOKEN, **more: bool) -> str:
    given = {"translated": False, "words": False} | more
    return encoded(transcript, kind, **given).decode()


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        (TranscriptFormat.JSON, '{"text":"你好。 再见。","usage":{"type":"duration","seconds":3726}}'),
        (TranscriptFormat.TEXT, "你好。 再见。\n"),
        (
            TranscriptFormat.SRT,
            "1\n00:00:00,000 --> 00:00:01,250\n你好。\n\n2\n01:01:01,000 --> 01:02:05,000\n再见。\n\n",
        ),
        (
            TranscriptFormat.VTT,
            "WEBVTT\n\n00:00:00.000 --> 00:00:01.250\n你好。\n\n01:01:01.000 --> 01:02:05.000\n再见。\n\n",
        ),
    ],
)
def test_a_transcript_in_each_format(kind: TranscriptFormat, body: str) -> None:
    assert of(kind) == body


def test_a_cue_of_webvtt_has_no_sign_of_its_markup() -> None:
    assert "a < b & c" in of(TranscriptFormat.SRT, SIGNS)
    assert "a &lt; b &amp; c" in of(TranscriptFormat.VTT, SIGNS)


def test_verbose_json_names_the_language_and_has_words_if_asked_for() -> None:
    found = json.loads(of(TranscriptFormat.VERBOSE_JSON))
    assert (found["task"], found["language"], found["duration"]) == ("transcribe", "chinese", 3725.5)
    assert found["segments"][1]["avg_logprob"] == -0.5
    assert "words" not in found
    found = json.loads(of(TranscriptFormat.VERBOSE_JSON, words=True, translated=True))
    assert found["words"] == [{"word": "你好", "start": 0.0, "end": 1.0}]
    assert (found["task"], found["language"]) == ("translate", "english")


@pytest.mark.parametrize("kind", list(TranscriptFormat))
def test_a_transcript_without_words_is_not_an_empty_body(kind: TranscriptFormat) -> None:
    """An empty answer would count as one that is too large to be stored for a retry."""
    assert of(kind, SILENT)


def request_of(*fields: tuple[str, str]) -> TranscriptionRequest:
    upload = Upload(Path("a.wav"), "a.wav", "audio/wav", 1)
    return read([("model", "whisper-1"), *fields], upload, translate=False)


@pytest.mark.parametrize(
    ("tag", "code", "script"),
    [
        ("", None, Script.SIMPLIFIED),
        ("zh", "zh", Script.SIMPLIFIED),
        ("zh-CN", "zh", Script.SIMPLIFIED),
        ("zh_cn", "zh", Script.SIMPLIFIED),
        ("zh-TW", "zh", Script.TAIWAN),
        ("zh-Hant", "zh", Script.TAIWAN),
        ("zh-HK", "zh", Script.HONG_KONG),
        ("zh-Hant-HK", "zh", Script.HONG_KONG),
        ("zh-Hans-HK", "zh", Script.SIMPLIFIED),
        ("en-US", "en", Script.SIMPLIFIED),
        ("EN", "en", Script.SIMPLIFIED),
    ],
)
def test_a_language_is_a_code_or_a_tag(tag: str, code: str | None, script: Script) -> None:
    found = request_of(("language", tag))
    assert (found.language, found.script) == (code, script)


@pytest.mark.parametrize("name", ["timestamp_granularities", "timestamp_granularities[]"])
def test_granularities_may_have_brackets(name: str) -> None:
    assert request_of((name, "segment"), (name, "word")).words
    assert not request_of((name, "segment")).words


def test_whisper_1_is_not_streamed() -> None:
    """As OpenAI documents it."""
    assert not request_of(("stream", "true")).stream
    assert request_of(("stream", "true"), ("model", "other")).stream


LISTED = {"af_alloy": "Alloy", "zm_yunxi": "云希", "echo": "Echo", "a1": "Alice", "a2": "Alice", "b1": "Bob"}
MAPPING = {"alloy": "af_alloy", "echo": "zm_yunxi", "mine": "zm_yunxi", "nova": "af_nova"}


@pytest.mark.parametrize(
    ("name", "voice_id"),
    [
        ("alloy", "af_alloy"),
        ("zm_yunxi", "zm_yunxi"),
        ("echo", "echo"),  # the catalogue has a voice of this id
        ("mine", "zm_yunxi"),  # a name of the operator's
        ("nova", ""),  # its voice is not there: the default voice
        ("cedar", ""),  # a name of OpenAI's without a voice
        ("Alloy", "af_alloy"),
        ("ZM_Yunxi", "zm_yunxi"),
        ("云希", "zm_yunxi"),
        ("bob", "b1"),
        ("Alice", "Alice"),  # two have the name
        ("nobody", "nobody"),  # which the catalogue refuses
    ],
)
def test_a_name_means_a_voice(name: str, voice_id: str) -> None:
    assert voice_id_of(name, MAPPING, LISTED) == voice_id


@pytest.mark.parametrize("text", ["alloy", "alloy=", "=x", "alloy=a,alloy=b", "Alloy=x", "a=b c", "a=b=c"])
def test_a_mapping_that_cannot_be_read_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="must be NAME=VOICE_ID"):
        voice_mapping(text)


def test_an_empty_mapping_has_no_names() -> None:
    assert voice_mapping("") == {}

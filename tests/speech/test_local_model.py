"""A model of sherpa-onnx as the first speech channel of a site."""

from pathlib import Path

from demo import tiny_voices
from tests.rig.calls import call
from tests.rig.service import ServiceMaker
from tests.rig.waiting import wait_until

WAIT_S = 20


def test_a_site_speaks_with_a_model_in_a_folder(make_service: ServiceMaker, tmp_path: Path) -> None:
    folder = tiny_voices.vits(tmp_path / "tiny")
    service = make_service(chat_url="parrot:", speech=f"sherpa:{folder}").start()
    key = service.account(units=20).key().plain
    voices = call("GET", f"{service.base_url}/voices", key=key).json["data"]
    assert [voice["voice_id"] for voice in voices] == ["tiny-0", "tiny-1"]
    answer = call("POST", f"{service.base_url}/tts", key=key, data={"text": "你好", "voice_id": "tiny-1"})
    assert (answer.status, answer.json["mode"]) == (200, "sync")
    assert call("GET", answer.json["audio_url"]).status == 200
    wait_until(lambda: len(service.cli("voice", "list")) == 2, WAIT_S, "the voices are stored")
    service.cli("voice", "rename", "tiny-0", "小禾")
    tested = service.cli("channel", "test", "default-speech")
    assert "'tiny-0', of 2 voices, spoke" in tested["result"]


def test_a_folder_without_a_model_is_refused_in_one_line(make_service: ServiceMaker, tmp_path: Path) -> None:
    ended = make_service(speech=f"sherpa:{tmp_path}").command("serve")
    assert (ended.code, len(ended.stderr.splitlines())) == (2, 1)
    assert f"MYNA_SPEECH: {tmp_path} has no model in it" in ended.stderr

"""A blend made while the service runs: by HTTP, on both databases, and through backup and move."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile

from demo import tiny_voices
from tests.rig.calls import call
from tests.rig.service import Service, ServiceMaker

PARTS = ["zf_xiaobei", "zf_xiaoxiao", "af_heart"]
BLEND, RECIPE = "xiao", "zf_xiaoxiao:3+zf_xiaobei:1"
TEXT = "你好，世界。"


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_voices.neural(tmp_path_factory.mktemp("models") / "kokoro", PARTS)


@pytest.fixture(params=["sqlite", "postgresql"])
def database_url(request: pytest.FixtureRequest) -> str | None:
    return None if request.param == "sqlite" else str(request.getfixturevalue("postgres_url"))


@pytest.fixture
def new_service(make_service: ServiceMaker, model: Path) -> Callable[..., Service]:
    """Makes a service on a database that speaks with the tiny model."""
    return lambda url, **env: make_service(speech=f"kokoro:{model}", database_url=url, env=env)


def voices_of(service: Service, key: str) -> list[Any]:
    return list(call("GET", f"{service.base_url}/voices", key=key).json["data"])


def ids_of(service: Service, key: str) -> list[str]:
    return [voice["voice_id"] for voice in voices_of(service, key)]


def pitch_hz(service: Service, key: str, voice_id: str, path: Path) -> float:
    """The mean pitch of a text in this voice: the tiny model adds 2,000 Hz for each place in PARTS."""
    data = {"text": TEXT, "voice_id": voice_id}
    answer = call("POST", f"{service.base_url}/tts", key=key, data=data)
    assert (answer.status, answer.json["mode"]) == (200, "sync"), answer
    path.write_bytes(call("GET", answer.json["audio_url"]).body)
    samples, rate_hz = soundfile.read(path)
    power = np.abs(np.fft.rfft(samples)) ** 2
    return float((np.fft.rfftfreq(len(samples), 1 / rate_hz) * power).sum() / power.sum())


def test_a_blend_is_listed_and_spoken_from_the_next_call_on(
    new_service: Callable[..., Service], database_url: str | None, tmp_path: Path
) -> None:
    """On PostgreSQL also in another process."""
    services = [service := new_service(database_url).start()]
    if database_url:
        services.append(new_service(database_url, MYNA_DATA=service.env["MYNA_DATA"]).start())
    key = service.account(units=100).key().plain
    before = {one.port: ids_of(one, key) for one in services}
    service.cli("voice", "blend", BLEND, RECIPE, "--name", "小")
    for one in services:
        assert before[one.port] == PARTS
        voice = voices_of(one, key)[-1]
        assert (voice["voice_id"], voice["name"], voice["source"]) == (BLEND, "小", "public")
        assert (voice["gender"], voice["language"]) == ("female", "zh-CN")
        low, blended = (pitch_hz(one, key, voice, tmp_path / "a.mp3") for voice in (PARTS[0], BLEND))
        assert blended - low == pytest.approx(1500, rel=0.05)

    service.cli("voice", "delete", BLEND)
    for one in services:
        assert ids_of(one, key) == PARTS
        data = {"text": TEXT, "voice_id": BLEND}
        assert call("POST", f"{one.base_url}/tts", key=key, data=data).status == 400
        assert one.stop() == 0
    assert service.command("audit", "--audio").code == 0


def test_a_recipe_is_no_voice_id_of_a_request(new_service: Callable[..., Service]) -> None:
    service = new_service(None).start()
    key = service.account(units=1).key().plain
    answer = call("POST", f"{service.base_url}/tts", key=key, data={"text": TEXT, "voice_id": RECIPE})
    assert (answer.status, answer.json["error"]["message"].startswith("voice_id: there is no")) == (400, True)


def test_the_command_line_makes_lists_replaces_and_deletes_a_blend(
    new_service: Callable[..., Service],
) -> None:
    service = new_service(None)
    service.cli("migrate")
    made = service.cli("voice", "blend", BLEND, RECIPE)
    described = {"name": "晓晓 + 晓北", "gender": "female", "language": "zh-CN", "recipe": RECIPE}
    assert made == {"voice_id": BLEND, **described}
    assert service.cli("voice", "blend", BLEND, RECIPE) == made
    assert service.cli("voice", "blend", BLEND, "zf_xiaobei+zf_xiaoxiao")["name"] == "晓北 + 晓晓"
    rows = {row["voice_id"]: row for row in service.cli("voice", "list")}
    assert (rows[BLEND]["recipe"], rows[BLEND]["by"]) == (
        "zf_xiaobei+zf_xiaoxiao",
        ["channel default-speech"],
    )
    assert (rows["zf_xiaobei"]["recipe"], rows[BLEND]["source"]) == ("", "public")

    refused = service.command("voice", "blend", "other", "zf_xiaobei:2+zf_nobody:1")
    assert (refused.code, refused.stdout) == (1, "")
    assert refused.stderr.endswith(
        "The channel 'default-speech' has no voice 'zf_nobody'; see 'myna voice list'.\n"
    )
    deleted = service.cli("voice", "delete", BLEND)
    assert deleted == {"voice_id": BLEND, "deleted": True, "tasks_refunded": 0}
    assert service.command("voice", "delete", BLEND).stderr.endswith(
        "There is no blend or cloned voice 'xiao'.\n"
    )


def blends_of(service: Service, **env: str) -> list[tuple[str, str]]:
    rows = json.loads(service.command("voice", "list", "--json", env=env).stdout)
    return [(row["voice_id"], row["recipe"]) for row in rows if row["recipe"]]


def test_a_backup_of_either_database_has_the_blends(
    new_service: Callable[..., Service], database_url: str | None, tmp_path: Path
) -> None:
    service = new_service(database_url)
    service.cli("migrate")
    service.cli("voice", "blend", BLEND, RECIPE)
    archive = str(tmp_path / "site.tar")
    service.cli("backup", archive)
    elsewhere = {"MYNA_DATA": str(tmp_path / "elsewhere"), "MYNA_DATABASE_URL": ""}
    assert service.command("restore", archive, env=elsewhere).code == 0
    assert blends_of(service, **elsewhere) == [(BLEND, RECIPE)]


def test_a_moved_site_has_its_blends(new_service: Callable[..., Service], postgres_url: str) -> None:
    service = new_service(None)
    service.cli("migrate")
    service.cli("voice", "blend", BLEND, RECIPE)
    service.cli("move", "--to", postgres_url)
    assert blends_of(service, MYNA_DATABASE_URL=postgres_url) == [(BLEND, RECIPE)]

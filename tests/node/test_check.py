"""node.toml and `node check`: validation errors, and the measured speed of engines."""

import json
import re
from pathlib import Path

import pytest

from demo.tiny_voices import vits, zipvoice
from myna.errors import ConfigError
from myna.node.benchmark import check
from myna.node.engines import load_config
from myna.wire.farm import VOICES_MAX
from tests.node.conftest import ONE_SLOT
from tests.node.local_node import FakeEngine, names, voice
from tests.rig.compute_node import NodeMaker
from tests.rig.disks import on_full_disk
from tests.rig.farm_site import FarmSite

VOICE = """
[[engine.voice]]
id = "zh-tiny-1"
speaker = 1
name = "小禾"
gender = "female"
language = "zh-CN"
"""
ESPEAK = '[[engine]]\nkind = "espeak"\n'
SHERPA = '[[engine]]\nkind = "sherpa"\nfolder = "/"\n'
ID_WANTED = "must be letters, digits, '.', '_' and '-', at most 100 of them, the first a letter or a digit;"


def named(count: int) -> str:
    """The TOML of this number of voices of a model."""
    return "".join(VOICE.replace("zh-tiny-1", f"zh-{number}") for number in range(count))


def sherpa(folder: Path, rest: str = "") -> str:
    return f'[[engine]]\nkind = "sherpa"\nfolder = "{folder}"\n{rest}'


# ---- node.toml


def written(folder: Path, toml: str) -> Path:
    path = folder / "node.toml"
    path.write_text(toml, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("toml", "said"),
    [
        ("slots = 0\n", "slots: must be an integer from 1 to 64."),
        ('slots = "two"\n', "slots: must be an integer, not a string."),
        ("shutdown_grace_s = nan\n", "shutdown_grace_s: must be a number from 0 to 3600."),
        ("slot = 1\n", "slot: is not a key here; there are slots, shutdown_grace_s, engine."),
        ("engine = [5]\n", "engine[0]: must be an object, not an integer."),
        ('[[engine]]\nkind = "festival"\n', "engine[0].kind: must be espeak or kokoro or sherpa or openai."),
        (ESPEAK + ESPEAK + "voices = [5]\n", "engine[1].voices[0]: must be a string, not an integer."),
        (ESPEAK + 'voices = ["nobody"]\n', "engine[0]: voices: espeak has no 'nobody'; it has zh-female-1, "),
        ('[[engine]]\nkind = "sherpa"\n', "engine[0].folder: is missing."),
        (
            sherpa(Path("/nowhere")),
            "engine[0]: folder: there is no /nowhere; unpack the model there, or name",
        ),
        (SHERPA, "engine[0]: / has no model in it: there is no file *.onnx."),
        (SHERPA + '[[engine.voice]]\nid = "a b"\n', f"engine[0].voice[0].id: {ID_WANTED}"),
        (SHERPA + VOICE.replace("zh-tiny-1", "clone-1"), f"engine[0].voice[0].id: {ID_WANTED}"),
        (ESPEAK + 'voices = ["clone-1"]\n', f"engine[0].voices[0]: {ID_WANTED}"),
        (
            SHERPA + VOICE.replace("zh-CN", "Chinese"),
            "engine[0].voice[0].language: must be a language's code, such as zh-CN, yue or en.",
        ),
        (
            SHERPA + VOICE.replace("小禾", "bell\\u0007"),
            "engine[0]: voice[0].name: must be printable characters, and no others.",
        ),
        (SHERPA + VOICE + VOICE, "engine[0]: voice[1]: the id zh-tiny-1 is a duplicate; remove one."),
        (
            ESPEAK + 'voices = ["yue-male-1", "yue-male-1"]\n',
            "engine[0]: voices[1]: the id yue-male-1 is a duplicate; remove one.",
        ),
        (SHERPA.replace("/", ""), "engine[0]: folder: is empty; name the model's folder."),
        (
            SHERPA + VOICE.replace('"female"', '"f"'),
            'engine[0].voice[0].gender: must be "female", "male" or "neutral", not "f".',
        ),
        (
            SHERPA + VOICE.replace("name", "nmae"),
            "engine[0].voice[0].nmae: is not a key here; there are id, name, language, gender, speaker.",
        ),
        ("slots = \n", "is not valid TOML at line 1, column 9."),
    ],
)
def test_an_invalid_key_of_node_toml_is_named_with_the_fix(tmp_path: Path, toml: str, said: str) -> None:
    path = written(tmp_path, toml)
    with pytest.raises(ConfigError) as refused:
        load_config([path])
    assert str(refused.value).startswith(f"{path}: {said}")


def test_only_the_voices_that_node_toml_names_are_offered(tmp_path: Path) -> None:
    (engine,) = load_config([written(tmp_path, ESPEAK + 'voices = ["yue-male-1", "en-us-male-1"]\n')]).engines
    assert [found.voice_id for found in engine.voices] == ["yue-male-1", "en-us-male-1"]


def test_voices_with_the_same_id_count_once_towards_the_maximum(tmp_path: Path) -> None:
    model = vits(tmp_path / "vits")
    assert load_config([written(tmp_path, sherpa(model, named(500)) + sherpa(model, named(3)))])
    said = "engine: 515 voices in all; a node may have 500: name fewer of them, or remove an engine."
    with pytest.raises(ConfigError, match=said):
        load_config([written(tmp_path, sherpa(model, named(500)) + ESPEAK)])


# ---- a check, with engines that speak nothing


async def test_a_failing_engine_is_reported_with_the_others(tmp_path: Path) -> None:
    engines = [FakeEngine(voice("a")), FakeEngine(broken="there is no model"), FakeEngine(voice("b"))]
    first, failed, last = await check(engines, tmp_path)
    assert (first["ok"], first["voice"], last["ok"], last["voice"]) == (True, "a", True, "b")
    assert (failed["ok"], failed["error"]) == (False, "fake: there is no model")
    assert names(tmp_path) == []


async def test_voices_that_are_known_only_after_a_start_count_towards_the_maximum(tmp_path: Path) -> None:
    many = FakeEngine(*(voice(f"zh-{number}") for number in range(VOICES_MAX - 1)))
    first, second = await check([many, FakeEngine(voice("a"), voice("b"), label="the other")], tmp_path)
    said = "501 voices in all; a node may have 500: name fewer of them, or remove an engine."
    assert (first["ok"], second["ok"], second["error"]) == (True, False, f"the other: {said}")


async def test_a_voice_whose_id_looks_like_a_clone_is_refused(tmp_path: Path) -> None:
    (row,) = await check([FakeEngine(voice("clone-tiny-0"))], tmp_path)
    assert f"fake: a voice can't be offered: voice_id {ID_WANTED}" in str(row["error"])


# ---- the commands


def test_every_engine_is_measured_also_one_that_only_clones(make_node: NodeMaker, tmp_path: Path) -> None:
    node = make_node(ONE_SLOT + sherpa(vits(tmp_path / "vits"), VOICE) + sherpa(zipvoice(tmp_path / "zip")))
    node.data.mkdir()
    ended = node.command("check", "--json")
    assert ended.code == 0, ended
    espeak, own, cloner = json.loads(ended.stdout)
    assert (espeak["ok"], espeak["voice"], len(espeak["voices"])) == (True, "zh-female-1", 15)
    assert (own["voice"], own["voices"], own["clones"]) == ("zh-tiny-1", ["zh-tiny-1"], [])
    assert (cloner["voice"], cloner["voices"]) == ("", [])
    assert "zh" in cloner["clones"]
    assert all(row["speed"] > 0 and row["seconds"] > 0 for row in (espeak, own, cloner))
    assert list(node.data.iterdir()) == []


def test_without_node_toml_espeak_is_the_engine(make_node: NodeMaker) -> None:
    ended = make_node().command("check")
    assert ended.code == 0, ended
    _, row = ended.stdout.splitlines()
    assert re.match(r"espeak +yes +zh-female-1 +15 +[\d.]+ +[\d.]+ times real time", row)


def test_a_full_disk_at_the_first_sentence_is_one_line(make_node: NodeMaker, farm_site: FarmSite) -> None:
    node = make_node(ONE_SLOT).join(farm_site.url, farm_site.token)
    ended = on_full_disk(0, ["node", "run"], node.env, node.folder)
    assert (ended.code, ended.stderr.splitlines()[-1]) == (1, "myna: espeak: File too large")
    assert farm_site.hellos == []


def test_node_toml_is_read_from_option_then_the_data_folder_then_this_folder(make_node: NodeMaker) -> None:
    """Each file is invalid, so that the error has its name."""
    node = make_node("slots = 0\n")
    assert node.command("check").stderr.startswith("myna: node.toml: ")
    node.data.mkdir()
    (node.data / "node.toml").write_text("slots = 0\n")
    assert node.command("check").stderr.startswith(f"myna: {node.data / 'node.toml'}: ")
    (node.folder / "third.toml").write_text("slots = 0\n")
    assert node.command("check", "--config", "third.toml").stderr.startswith("myna: third.toml: ")


def test_a_missing_config_file_is_an_error(make_node: NodeMaker) -> None:
    ended = make_node().command("check", "--config", "gone.toml")
    assert (ended.code, ended.stderr) == (2, "myna: --config: there is no file gone.toml.\n")

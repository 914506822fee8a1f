"""node.toml and `node check`: what is wrong is named, what speaks is measured."""

import json
from pathlib import Path

import pytest

from demo.tiny_voices import vits, zipvoice
from tests.rig.compute_node import ComputeNode, NodeMaker

VOICE = """
[[engine.voice]]
id = "zh-tiny-1"
speaker = 1
name = "小禾"
gender = "female"
language = "zh-CN"
"""
ESPEAK = '[[engine]]\nkind = "espeak"\n'


def sherpa(folder: Path, rest: str = "") -> str:
    return f'[[engine]]\nkind = "sherpa"\nfolder = "{folder}"\n{rest}'


def test_without_a_file_it_is_espeak_that_speaks(make_node: NodeMaker) -> None:
    ended = make_node().command("check", "--json")
    (row,) = json.loads(ended.stdout)
    assert (ended.code, row["engine"], row["ok"], len(row["voices"])) == (0, "espeak", True, 15)
    assert row["speed"] > 1
    assert row["seconds"] > 0


def test_every_engine_speaks_also_one_that_only_clones(make_node: NodeMaker, tmp_path: Path) -> None:
    toml = ESPEAK + sherpa(vits(tmp_path / "vits"), VOICE) + sherpa(zipvoice(tmp_path / "zip"))
    ended = make_node(toml).command("check", "--json")
    assert ended.code == 0, ended
    espeak, own, cloner = json.loads(ended.stdout)
    assert espeak["ok"]
    assert (own["voices"], own["clones"]) == (["zh-tiny-1"], [])
    assert cloner["voices"] == []
    assert "zh" in cloner["clones"]
    assert all(row["speed"] > 0 for row in (own, cloner))


def test_one_that_fails_is_told_beside_those_that_do_not(make_node: NodeMaker, tmp_path: Path) -> None:
    broken = vits(tmp_path / "vits")
    (broken / "model.onnx").write_bytes(b"no model")
    node = make_node(ESPEAK + sherpa(broken))
    ended = node.command("check", "--json")
    espeak, failed = json.loads(ended.stdout)
    assert (ended.code, espeak["ok"], failed["ok"]) == (1, True, False)
    assert failed["error"]
    for_people = node.command("check")
    assert for_people.code == 1
    assert failed["error"] in for_people.stdout


@pytest.mark.parametrize(
    ("toml", "named"),
    [
        ("slots = 0\n", "slots: "),
        ("slots = 65\n", "slots: "),
        ('slots = "two"\n', "slots: "),
        ("shutdown_grace_s = -1\n", "shutdown_grace_s: "),
        ("slot = 1\n", "slot"),
        ("engine = []\n", "engine: "),
        ('[[engine]]\nkind = "festival"\n', "engine[0].kind: "),
        ("[[engine]]\nvoices = []\n", "engine[0]: "),
        (ESPEAK + ESPEAK + "voices = [5]\n", "engine[1].voices[0]: "),
        (ESPEAK + 'voices = ["nobody"]\n', "engine[0]: voices: espeak has no 'nobody'"),
        (ESPEAK + 'folder = "x"\n', "engine[0]: "),
        ('[[engine]]\nkind = "sherpa"\n', "engine[0]: "),
        (sherpa(Path("/nowhere")), "engine[0]: There is no folder /nowhere."),
        (sherpa(Path("/"), "threads = 0\n"), "engine[0].threads: "),
        (
            sherpa(Path("/"), '[[engine.voice]]\nid = "a b"\nname = "x"\nlanguage = "zh"\n'),
            "engine[0].voice[0].id: ",
        ),
        ("slots = \n", "can't be read: "),
    ],
)
def test_what_is_wrong_in_node_toml_is_named(make_node: NodeMaker, toml: str, named: str) -> None:
    ended = make_node(toml).command("check")
    assert ended.code == 2
    (line,) = ended.stderr.splitlines()
    assert line.startswith("myna: node.toml: ")
    assert named in line


def test_the_data_folders_file_goes_before_this_folders(make_node: NodeMaker) -> None:
    node = make_node(ESPEAK)
    node.data.mkdir()
    (node.data / "node.toml").write_text(ESPEAK + 'voices = ["zh-male-1"]\n')
    (row,) = json.loads(node.command("check", "--json").stdout)
    assert row["voices"] == ["zh-male-1"]
    named = node.command("check", "--json", "--config", "node.toml")
    assert len(json.loads(named.stdout)[0]["voices"]) == 15


def test_a_file_that_is_named_and_is_not_there_is_an_error(make_node: NodeMaker) -> None:
    ended = make_node().command("check", "--config", "gone.toml")
    assert (ended.code, ended.stderr) == (2, "myna: --config: there is no file gone.toml.\n")


def test_a_model_beside_node_toml_is_found_from_anywhere(make_node: NodeMaker, tmp_path: Path) -> None:
    node: ComputeNode = make_node()
    vits(node.folder / "etc" / "models" / "tiny")
    (node.folder / "etc" / "node.toml").write_text(sherpa(Path("models/tiny")))
    ended = node.command("check", "--json", "--config", "etc/node.toml")
    assert ended.code == 0, ended
    assert json.loads(ended.stdout)[0]["voices"] == ["tiny-0", "tiny-1"]

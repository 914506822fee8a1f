"""myna models: the known models, and the test of a folder. tests/models has the rest."""

import json
import tomllib
from pathlib import Path

import msgspec
import pytest
import soundfile

from demo import tiny_voices
from myna.engines.sherpa.engine import SherpaConfig
from myna.engines.sherpa.models import KNOWN
from tests.cli.conftest import Cli


def test_the_known_models_are_listed_with_their_addresses(cli: Cli) -> None:
    (line,) = cli.lines("models", "list", "--json")
    first, second, *others = json.loads(line)
    assert [(model["name"], model["state"]) for model in (first, second)] == [
        ("kokoro", "absent"), ("whisper", "absent"),
    ]  # fmt: skip
    assert [model["get"] for model in others] == [model.url for model in KNOWN]
    table = "\n".join(cli.lines("models", "list"))
    assert all(model.url in table and model.licence in table for model in KNOWN)


@pytest.mark.parametrize(
    ("family", "speakers", "languages", "rate_hz"),
    [("vits", 2, ["zh-CN"], 16_000), ("kokoro", 2, ["en-US"], 24_000), ("zipvoice", 0, ["zh"], 24_000)],
)
def test_a_model_is_tried_and_its_block_can_be_pasted(
    cli: Cli, tmp_path: Path, family: str, speakers: int, languages: list[str], rate_hz: int
) -> None:
    folder = getattr(tiny_voices, family)(tmp_path / '模型 "one"')
    (line,) = cli.lines(
        "models", "add", str(folder), "--threads", "1", "--save", str(tmp_path / "a.mp3"), "--json"
    )
    found = json.loads(line)

    assert (found["family"], found["speakers"], found["languages"]) == (family, speakers, languages)
    assert found["rate_hz"] == rate_hz and found["real_time_factor"] > 0
    assert soundfile.info(tmp_path / "a.mp3").duration == pytest.approx(found["seconds"], abs=0.06)
    (table,) = tomllib.loads(found["node_toml"])["engine"]
    model = msgspec.convert(table, SherpaConfig).model(Path())
    assert (model.family, model.folder, model.threads) == (family, str(folder), 1)
    assert [voice.speaker for voice in model.voices] == list(range(speakers))


def test_the_block_is_printed_below_the_fields(cli: Cli, tmp_path: Path) -> None:
    folder = tiny_voices.vits(tmp_path / "zh")
    said = "\n".join(cli.lines("models", "add", str(folder)))
    facts, _, block = said.partition("\nFor node.toml:\n")
    assert "speakers          2" in facts
    assert tomllib.loads(block)["engine"][0]["voice"][1]["id"] == "zh-1"


def test_a_folder_that_is_no_model_is_refused(cli: Cli, tmp_path: Path) -> None:
    assert (
        cli.misused("models", "add", str(tmp_path / "nowhere"))
        == f"There is no folder {tmp_path / 'nowhere'}."
    )
    folder = tiny_voices.vits(tmp_path / "zh")
    (folder / "tokens.txt").unlink()
    assert cli.misused("models", "add", str(folder)) == f"{folder} lacks tokens.txt."
    assert "from 1 to 64" in cli.misused("models", "add", str(folder), "--threads", "0")


def test_a_model_that_does_not_load_is_reported(cli: Cli, tmp_path: Path) -> None:
    folder = tiny_voices.vits(tmp_path / "zh")
    (folder / "model.onnx").write_bytes(b"junk")
    ended = cli.run("models", "add", str(folder))
    assert ended.code == 1 and not ended.stdout
    assert "The model doesn't speak" in ended.stderr.splitlines()[-1]

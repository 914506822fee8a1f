"""The page of compute nodes matches the settings and messages of the program."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec import NODEFAULT, Struct, structs

from demo import tiny_voices
from myna.engines.config import VoiceConfig
from myna.engines.registry import KINDS
from myna.errors import ConfigError
from myna.node.config import FILE, NodeFile, load
from tests.docs.pages import DOCS, ROOT, code, fences, table

PAGE = DOCS / "nodes.md"
NODE = [
    *(ROOT / "myna/node").glob("*.py"),
    ROOT / "myna/cli/node_run.py",
    ROOT / "myna/engines/config.py",
    *(ROOT / f"myna/engines/{kind}/config.py" for kind in KINDS),
    ROOT / "myna/engines/sherpa/models.py",
]
IN_WORDS = {"slots": "as many as cores", "engine": "one `espeak`", "key_env": "none"}
"""Defaults that are described in words."""


def test_the_node_toml_of_the_page_is_valid(tmp_path: Path) -> None:
    (example,) = [fence.text for fence in fences(PAGE) if fence.language == "toml"]
    (tmp_path / FILE).write_text(example, encoding="utf-8")
    own, cloner = re.findall('folder = "(.*)"', example)
    tiny_voices.vits(tmp_path / own)
    (tiny_voices.zipvoice(tmp_path / cloner) / "lexicon-en-us.txt").touch()
    config = load([tmp_path / FILE])
    assert (config.slots, config.shutdown_grace_s) == (2, 20)
    embedded, named, clones = config.engines
    assert [voice.voice_id for voice in embedded.voices] == ["yue-female-1", "yue-male-1"]
    assert [voice.name for voice in named.voices] == ["林"]
    assert (clones.voices, clones.clones) == ((), ("zh", "en"))


@pytest.mark.parametrize(
    ("head", "kind", "besides"),
    [
        ("key", NodeFile, {"engine.kind": ""}),
        *((f"key of kind `{kind}`", config, {}) for kind, config in KINDS.items()),
        ("key of a `voice`", VoiceConfig, {}),
    ],
)
def test_every_key_of_node_toml_is_documented_with_its_default(
    head: str, kind: type[Struct], besides: dict[str, str]
) -> None:
    documented = {code(row[0])[0]: row[1] for row in table(PAGE, head)}
    assert documented == {field.name: default(field) for field in structs.fields(kind)} | besides


def default(field: structs.FieldInfo) -> str:
    if field.name in IN_WORDS:
        return IN_WORDS[field.name]
    if field.default_factory is not NODEFAULT:
        return "none"
    if field.default is NODEFAULT:
        return ""
    return "all" if field.default is None else f"`{field.default}`"


def documented_messages() -> set[str]:
    """The first column of both tables of messages."""
    text = PAGE.read_text("utf-8")
    rows = [line for part in text.split("| it says |")[1:] for line in part.split("\n\n")[0].splitlines()]
    return {code(row)[0] for row in rows if row.startswith("| `")}


def template(node: ast.expr) -> str:
    """A text of the source with … for each placeholder; empty if the node is no text."""
    if isinstance(node, ast.JoinedStr):
        text = "".join(str(part.value) if isinstance(part, ast.Constant) else "…" for part in node.values)
    else:
        text = node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""
    return re.sub("…+", "…", re.sub(r"%(\.\d)?[sdf]", "…", text))


def said(path: Path) -> Iterator[str]:
    """The messages that a module raises for the command line to print, or logs."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Name(id="log")), args=[text, *_]):
                yield template(text)
            case ast.Call(
                func=ast.Name(id="CommandError" | "ConfigError" | "EngineUnavailable"), args=[text, *_]
            ):
                yield template(text)


def test_every_message_of_a_node_is_documented() -> None:
    messages = {text for path in NODE for text in said(path) if re.search("[a-z]{2}", text)}
    assert len(messages) > 30
    assert messages - documented_messages() == set()


@pytest.mark.parametrize(
    "toml",
    [
        "slots = 0",
        'slots = "two"',
        "slot = 1",
        "slots =",
        '[[engine]]\nkind = "festival"',
        '[[engine]]\nkind = "sherpa"',
        '[[engine]]\nkind = "sherpa"\nfolder = ""',
        '[[engine]]\nkind = "sherpa"\nfolder = "x"\nvoice = [{id = "a b"}]',
        '[[engine]]\nkind = "sherpa"\nfolder = "x"\nvoice = [{id = "a", name = "b", gender = "c"}]',
        '[[engine]]\nkind = "sherpa"\nfolder = "x"\nvoice = [{id = "a", name = "\\n", language = "en"}]',
        '[[engine]]\nkind = "espeak"\nvoices = ["zh-male-1", "zh-male-1"]',
    ],
)
def test_every_error_of_node_toml_is_documented(tmp_path: Path, toml: str) -> None:
    (tmp_path / FILE).write_text(toml, encoding="utf-8")
    with pytest.raises(ConfigError) as refused:
        load([tmp_path / FILE])
    patterns = (".*".join(map(re.escape, row.split("…"))) for row in documented_messages())
    texts = (str(refused.value), str(refused.value).partition("engine[0]: ")[2])
    assert any(re.fullmatch(pattern, text) for pattern in patterns for text in texts), refused.value


def test_every_documented_message_exists() -> None:
    texts = {
        template(node)
        for path in (ROOT / "myna").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.JoinedStr | ast.Constant)
    }
    for message in documented_messages() - texts:
        pattern = re.compile(".+".join(map(re.escape, message.split("…"))))
        assert any(pattern.fullmatch(text) for text in texts), message

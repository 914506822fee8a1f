"""Every example of docs/quick-start.md, in each language, against a service with scripted upstreams."""

import runpy
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.clients.page import blocks
from tests.docs.pages import DOCS
from tests.rig.clients import NodeJsClient
from tests.rig.commands import output_of
from tests.rig.upstream import Upstream

_SITE = {"whisper-1": "hear-1", "text-embedding-3-small": "vectors"}
"""The page's models, and those of the service here."""
_SEEN = "It is a red square."
_FAULTS = {"Tools": 'tool:{"city":"Oslo"}', "JSON": 'say:{"city":"Sydney"}', "Images": f"say:{_SEEN}"}
"""What the upstream does where an echo is no answer."""
_PRINTED = {
    "Chat": ["Say hello."],
    "Stream": ["hello."],
    "Tools": ["weather", "Oslo"],
    "JSON": ["Sydney"],
    "Images": [_SEEN],
    "Embeddings": ["0.25", "-0.5"],
    "Speech": [],
    "Transcription": ["heard elsewhere"],
}
_LISTED = {"/models": ['"id":"svc-chat"', '"units":1'], "/me": ['"use_count"']}
"""What the reads print, by the end of their path."""
_PHOTO, _SOUND = "photo.png", "hello.mp3"
_MIN_SOUND_BYTES = 1000


class Example(NamedTuple):
    section: str
    language: str
    text: str


def examples(*languages: str) -> list[Example]:
    page = (DOCS / "quick-start.md").read_text(encoding="utf-8")
    for name, real in _SITE.items():
        page = page.replace(name, real)
    return [
        Example(section, language, text)
        for section, found in blocks(page).items()
        for language, text in found
        if language in languages
    ]


def named(example: Example) -> str:
    return f"{example.section} {example.language}"


def prepare(example: Example, upstream: Upstream, folder: Path) -> None:
    """What the example finds: a photo, the sound of the example before, and an upstream that can answer."""
    upstream.behave(_FAULTS.get(example.section, "echo"))
    (folder / _PHOTO).write_bytes(b"\x89PNG of a square")
    if example.section == "Transcription":
        (folder / _SOUND).write_bytes(b"ID3 of a hello")


def check(example: Example, printed: str, folder: Path) -> None:
    assert [part for part in _PRINTED[example.section] if part not in printed] == []
    if example.section == "Speech":
        assert (folder / _SOUND).stat().st_size > _MIN_SOUND_BYTES


def test_each_section_has_an_example_in_each_language() -> None:
    found = {(example.section, example.language) for example in examples("sh", "python", "js")}
    assert found >= {(section, language) for section in _PRINTED for language in ("sh", "python", "js")}


@pytest.mark.parametrize("example", examples("sh"), ids=named)
def test_an_example_for_curl_works(
    example: Example, client_env: Mapping[str, str], chat_upstream: Upstream, folder: Path
) -> None:
    prepare(example, chat_upstream, folder)
    text = example.text.replace("curl ", "curl --silent --show-error --fail-with-body ")
    printed = output_of(["sh", "-ec", text], client_env, folder, 30)
    if example.section in _PRINTED:
        check(example, printed, folder)
    else:
        (wanted,) = (parts for path, parts in _LISTED.items() if f"{path} " in example.text)
        assert [part for part in wanted if part not in printed] == []


@pytest.mark.parametrize("example", examples("python"), ids=named)
def test_an_example_in_python_works(
    example: Example,
    client_env: Mapping[str, str],
    chat_upstream: Upstream,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """In this process: a new one takes a second for its imports."""
    prepare(example, chat_upstream, folder)
    for name in ("OPENAI_BASE_URL", "OPENAI_API_KEY", "NO_PROXY"):
        monkeypatch.setenv(name, client_env[name])
    monkeypatch.chdir(folder)
    (folder / "example.py").write_text(example.text, encoding="utf-8")
    runpy.run_path("example.py")
    check(example, capsys.readouterr().out, folder)


@pytest.mark.slow
@pytest.mark.clients
@pytest.mark.parametrize("example", examples("js"), ids=named)
def test_an_example_in_node_works(
    example: Example,
    client_env: Mapping[str, str],
    chat_upstream: Upstream,
    node_client: NodeJsClient,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    prepare(example, chat_upstream, folder)
    monkeypatch.chdir(folder)
    check(example, node_client.execute(example.text, client_env), folder)

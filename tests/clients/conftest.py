"""A service for the clients, and the environment in which they find it."""

import os
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path

import pytest

from tests.conformance.caller import make_caller
from tests.openai_audio.transcription_upstream import TranscriptionUpstream
from tests.rig.service import RunningService, Service
from tests.rig.upstream import Upstream


@pytest.fixture(scope="session")
def speech_upstream() -> Iterator[Upstream]:
    """The server that speaks. The service asks it for its voices at any time, so it is not the one whose
    requests the tests count."""
    with closing(Upstream()) as running:
        yield running


@pytest.fixture(scope="session")
def transcription_upstream() -> Iterator[TranscriptionUpstream]:
    with TranscriptionUpstream() as running:
        yield running


@pytest.fixture(scope="session")
def service(
    session_upstream: Upstream,
    speech_upstream: Upstream,
    transcription_upstream: TranscriptionUpstream,
    running_service: RunningService,
) -> Iterator[Service]:
    """A service with upstreams for chat, speech and recordings, shared by all clients."""
    speech = {"speech": speech_upstream.url, "env": {"MYNA_SPEECH_KEY": speech_upstream.key}}
    with running_service(**session_upstream.as_chat(), **speech) as running:
        running.cli("channel", "add", "chat", "hears", transcription_upstream.url)
        for name, kind, channel in (
            ("vectors", "embeddings", "default"),
            ("hear-1", "transcription", "hears"),
        ):
            running.cli("route", "add", name, "--channel", channel, "--units", "1", "--kind", kind)
        make_caller(running).wait_for_voices()
        yield running
        assert running.command("audit", "--json").code == 0


@pytest.fixture(scope="session")
def client_env(service: Service, tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, str]:
    """Environment variables by which a client finds the service, with settings that keep programs from asking
    questions and from connecting to other services."""
    home = tmp_path_factory.mktemp("home")
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "OPENAI_BASE_URL": f"{service.root_url}/openai/v1",
        "OPENAI_API_KEY": service.account(units=1_000_000).key().plain,
        "NO_PROXY": "127.0.0.1",
        "PYTHONIOENCODING": "utf-8",
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",
        "CACHE_PATH": str(home / "sgpt-cache"),
        "CHAT_CACHE_PATH": str(home / "sgpt-chat-cache"),
        "AIDER_GIT": "false",
        "AIDER_YES_ALWAYS": "true",
        "AIDER_CHECK_UPDATE": "false",
        "AIDER_ANALYTICS_DISABLE": "true",
        "AIDER_SHOW_MODEL_WARNINGS": "false",
    }


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """An empty working folder for a program."""
    made = tmp_path / "work"
    made.mkdir()
    return made

"""Servers of a model, and what a command reports."""

import ssl
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import trustme

from myna.engines.models import install
from myna.engines.models.published import Model
from myna.errors import CommandError
from tests.models import stand_in
from tests.models.file_server import FileServer


class Recorded:
    """A report that keeps what was said."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.steps: list[str] = []
        self.done_bytes: list[int] = []

    def say(self, line: str) -> None:
        self.lines.append(line)

    def begin(self, what: str, size_bytes: int) -> None:
        self.steps.append(what)
        self.done_bytes.append(0)

    def advance(self, size_bytes: int) -> None:
        self.done_bytes[-1] += size_bytes


@pytest.fixture
def report() -> Recorded:
    return Recorded()


@pytest.fixture(scope="session")
def certified(tmp_path_factory: pytest.TempPathFactory) -> tuple[ssl.SSLContext, Path]:
    """The TLS of a server at localhost, and the file of the roots that trust it."""
    authority = trustme.CA()
    roots = tmp_path_factory.mktemp("roots") / "roots.pem"
    authority.cert_pem.write_to_path(str(roots))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("localhost").configure_cert(context)
    return context, roots


@pytest.fixture
def server(certified: tuple[ssl.SSLContext, Path], monkeypatch: pytest.MonkeyPatch) -> Iterator[FileServer]:
    """The release of the stand-in, over a trusted HTTPS."""
    context, roots = certified
    monkeypatch.setenv("SSL_CERT_FILE", str(roots))
    monkeypatch.setenv("NO_PROXY", "localhost")
    server = FileServer(context)
    server.files = stand_in.release()
    yield server
    server.close()


@pytest.fixture
def model(server: FileServer) -> Model:
    """The stand-in, whose release the server has."""
    return stand_in.at(f"{server.url}files/")


@pytest.fixture
def target(tmp_path: Path) -> Path:
    """The folder for the model."""
    return tmp_path / "models" / "tiny"


@dataclass(frozen=True)
class Fetching:
    """A model, its server, the folder for it, and what was reported."""

    server: FileServer
    model: Model
    target: Path
    report: Recorded

    def get(self, source: str = install.RELEASE) -> install.Got:
        return install.get(self.model, self.target, source, self.report)

    def refused(self, error: type[Exception] = CommandError) -> str:
        """The message of the error, in one line."""
        with pytest.raises(error) as failure:
            self.get()
        assert "\n" not in str(failure.value)
        return str(failure.value)

    def check_there(self) -> None:
        """Checks that the folder has the model, and that nothing else is left."""
        assert stand_in.contents(self.target) == stand_in.INSTALLED
        assert left_beside(self.target) == []


@pytest.fixture
def fetching(server: FileServer, model: Model, target: Path, report: Recorded) -> Fetching:
    return Fetching(server, model, target, report)


def left_beside(target: Path) -> list[str]:
    """What a command left beside the folder, apart from the lock."""
    names = {path.name for path in target.parent.iterdir()} if target.parent.exists() else set()
    return sorted(names - {target.name, f".{target.name}.lock"})

"""`myna.http.connection` and `myna.http.server` override parts of uvicorn that are not public.

This fails when one of them is not the code that was read for that: read what changed, then change the digest
here and the bound in pyproject.toml.
"""

import hashlib
import inspect
import tomllib
from importlib.metadata import version
from pathlib import Path

from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import Server
from uvicorn.supervisors.multiprocess import Multiprocess, Process

READ = {
    HttpToolsProtocol: "18fdf324b11bf160",
    RequestResponseCycle: "e67d470d435dcc1c",
    FlowControl: "126debcdaa894c83",
    Server.startup: "2aa1d70a244bfcf2",
    Server.shutdown: "9b33c50562992b1e",
    Server.capture_signals: "e1bbcd4770d1c887",
    Process: "c3105a4518e3195a",
    Multiprocess: "ea4650ac0ee7c09c",
}


def test_overridden_parts_of_uvicorn_are_unchanged() -> None:
    found = {part: hashlib.sha256(inspect.getsource(part).encode()).hexdigest()[:16] for part in READ}
    assert found == READ


def test_uvicorn_is_pinned_to_the_reviewed_version() -> None:
    project = tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8"))["project"]
    (bound,) = (each for each in project["dependencies"] if each.startswith("uvicorn"))
    assert bound == f"uvicorn=={version('uvicorn')}"

"""A service accepts no more clients than its limit on open files allows: none of them is charged for a call
whose connection to a channel fails for want of a file."""

import resource
from concurrent.futures import ThreadPoolExecutor

import pytest

from myna.http import open_files
from myna.http.open_files import OTHER_FILES, fitted
from myna.settings import Settings
from tests.rig.calls import call
from tests.rig.service import ServiceMaker
from tests.rig.upstream import Upstream

FILES = 128
CLIENTS = 100
PROGRAM = (
    f"import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (64, {FILES}));"
    " from myna.cli import main; main(['serve'])"
)


@pytest.mark.parametrize(
    ("files", "clients", "outbound"),
    [
        (resource.RLIM_INFINITY, 4096, 512),
        (2 * 4096 + 512 + OTHER_FILES, 4096, 512),
        (1024, 256, 256),
        (FILES, 21, 21),
        (4, 1, 1),
    ],
)
def test_the_connections_fit_into_the_limit_on_open_files(
    monkeypatch: pytest.MonkeyPatch, files: int, clients: int, outbound: int
) -> None:
    monkeypatch.setattr(open_files.resource, "getrlimit", lambda _: (files, files))
    fits = fitted(Settings())
    assert (fits.connections_max, fits.outbound_connections_max) == (clients, outbound)


def test_calls_beyond_a_small_limit_are_refused_and_no_channel_is_blamed(
    make_service: ServiceMaker, upstream: Upstream
) -> None:
    upstream.behave("block")
    service = make_service(program=("-c", PROGRAM), speech="none", chat_url=upstream.url).start()
    key = service.account(units=1000).key().plain
    said = {"model": "svc-chat", "messages": [{"role": "user", "content": "hello"}]}

    def ask() -> int:
        return call("POST", f"{service.root_url}/v1/chat/completions", key=key, data=said).status

    with ThreadPoolExecutor(CLIENTS) as threads:
        asked = [threads.submit(ask) for _ in range(CLIENTS)]
        upstream.wait_for_requests(8)
        upstream.release()
        answered = [one.result() for one in asked]
    assert set(answered) <= {200, 503} and answered.count(200) >= 8
    me = call("GET", f"{service.root_url}/v1/me", key=key).json
    assert me["stats"]["cost"] == answered.count(200)
    (channel,) = service.cli("channel", "list")
    assert (channel["circuit"], channel["last_error"]) == ("closed", "")
    assert f"the limit on open files is {FILES}" in service.stderr
    assert "Too many open files" not in service.stderr

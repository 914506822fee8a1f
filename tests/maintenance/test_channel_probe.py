"""A suspected channel is sent a request of the kind that failed, whose failure opens its circuit."""

import pytest

from myna.channel_circuits import FAILURES_MAX
from myna.service import Service
from myna.store.queries import config as config_store
from myna.store.queries.config import ChannelRow
from tests.rig.upstream import Upstream
from tests.store.books import Books

pytestmark = pytest.mark.anyio

ALICE = 7


async def probed(books: Books, service: Service, upstream: Upstream, failed: str, **changes: object) -> bool:
    """Adds a channel whose requests of the kind `failed` fail for one account, and has it probed. Whether its
    circuit is open then."""
    given = {"kind": "chat", "model": "m", "key_env": "", "priority": 1, "enabled": 1} | changes
    row = ChannelRow(name="up", url=upstream.url, **given)  # type: ignore[arg-type]
    await books.db.transaction(lambda connection: config_store.add_channel(connection, row))
    await service.config.refresh()
    for _ in range(FAILURES_MAX):
        service.channels.circuits.failed("up", "why", ALICE, failed)
    await service.jobs.probe_channels()
    return service.channels.circuits.open("up")


ASKED = [
    ("chat", "chat", "/chat/completions"),
    ("embeddings", "chat", "/embeddings"),
    ("transcription", "chat", "/models"),
    ("", "speech", "/audio/voices"),
]


@pytest.mark.parametrize(("kind", "of", "path"), ASKED, ids=[path for *_, path in ASKED])
@pytest.mark.parametrize(("fault", "opens"), [("status:401", True), ("echo", False)])
async def test_the_probe_is_of_the_kind_of_the_failures(
    books: Books, service: Service, upstream: Upstream, kind: str, of: str, path: str, fault: str, opens: bool
) -> None:
    upstream.behave(fault)
    assert await probed(books, service, upstream, kind, kind=of) is opens
    paths = [seen.path.partition("?")[0].removeprefix("/v1") for seen in upstream.requests]
    assert paths[:1] == [path] or (path == "/models" and not opens)
    assert service.channels.circuits.to_probe() == {}


async def test_a_channel_that_refuses_the_probe_answers(
    books: Books, service: Service, upstream: Upstream
) -> None:
    upstream.behave("status:404")
    assert not await probed(books, service, upstream, "chat")
    service.channels.circuits.failed("up", "why", ALICE)
    assert service.channels.circuits.to_probe() == {}


async def test_a_disabled_channel_is_not_probed(books: Books, service: Service, upstream: Upstream) -> None:
    upstream.behave("status:500")
    assert not await probed(books, service, upstream, "chat", enabled=0)
    assert not upstream.requests

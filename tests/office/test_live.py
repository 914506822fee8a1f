"""Pages that stay up to date end with their session, and an account leaves places to others."""

from collections.abc import AsyncIterator
from typing import Any, cast

import pytest
from markupsafe import Markup
from starlette.responses import StreamingResponse

from myna.errors import Overloaded
from myna.office import page
from tests.rig.calls import Wire
from tests.rig.office import People
from tests.rig.service import Service

ENDS_S = 2.5
"""A look at the session each second, and time for the machine."""


def test_a_live_page_ends_with_its_session(site: Service, people: People) -> None:
    visitor = people.signed_in("live")
    visitor.result("/keys/new", name="k", scope="chat")
    (key,) = site.cli("key", "list", "live")
    with Wire(site.root_url) as wire:
        wire.head(f"GET /office/keys/{key['id']}/live HTTP/1.1", f"Cookie: myna={visitor.cookies['myna']}")
        sent = wire.socket.recv(65536)
        while b"event: content" not in sent:
            sent += wire.socket.recv(65536)
        site.cli("account", "disable", "live")
        wire.socket.settimeout(ENDS_S)
        while not sent.endswith(b"\r\n0\r\n\r\n"):
            received = wire.socket.recv(65536)
            assert received, "the connection stays open for the next request"
            sent += received
    assert b"event: end" not in sent, "the browser connects again, and is led to the sign-in"


class Account:
    def __init__(self, account_id: int) -> None:
        self.id = account_id


class Visit:
    """What a stream reads of a visit."""

    def __init__(self, account_id: int) -> None:
        self.account = Account(account_id)
        self.owner = f"account {account_id}"
        self.exchange = type("Exchange", (), {"stopping": False})
        self.session = self.db = object()

    def part(self, template: str) -> Markup:
        return Markup("<p>one</p>")


async def open_stream(account_id: int) -> AsyncIterator[Any]:
    """A stream that has sent its first part."""

    async def values(_: object) -> page.Values:
        return {}

    follow = page.live_page("", "page.html", values).show
    assert follow
    response = await follow(cast(Any, Visit(account_id)))
    assert isinstance(response, StreamingResponse)
    stream = aiter(response.body_iterator)
    assert await anext(stream) == b'event: content\ndata: "<p>one</p>"\n\n'
    return stream


@pytest.fixture
def open_sessions(monkeypatch: pytest.MonkeyPatch) -> None:
    async def is_open(*_: object) -> bool:
        return True

    monkeypatch.setattr(page.sessions, "is_open", is_open)


@pytest.mark.anyio
async def test_the_live_pages_of_an_account_leave_places_to_others(open_sessions: None) -> None:
    streams = [await open_stream(1) for _ in range(page.STREAMS_OF_ACCOUNT_MAX)]
    with pytest.raises(Overloaded) as refused:
        await open_stream(1)
    assert refused.value.headers["Retry-After"] == "10"
    streams.append(await open_stream(2))
    await cast(Any, streams.pop(0)).aclose()
    streams.append(await open_stream(1))
    for stream in streams:
        await cast(Any, stream).aclose()

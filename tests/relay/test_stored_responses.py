"""What a request may continue, and when nothing is stored: decided before the charge."""

import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from myna.accounts.keys import Scope, UnverifiedCaller
from myna.actions.site import SetSetting
from myna.billing import quota as quota_module
from myna.errors import DiskFull, InsufficientQuota, InvalidRequest
from myna.gateway.relay.stored_responses import Earlier, StoredResponses, own_items, referenced_in
from myna.server.service import Service
from myna.settings import Settings
from myna.store.files.storage import FreeSpace
from myna.store.queries.stored_responses import StoredResponse
from myna.wire.responses.request import ResponsesRequest
from tests.conformance.caller import Caller, make_caller
from tests.maintenance.conftest import service_on
from tests.rig.actors import perform
from tests.rig.calls import EventReader
from tests.rig.processes import proc_file
from tests.rig.service import ServiceMaker
from tests.rig.upstream import Upstream
from tests.rig.waiting import SOON_S, wait_until
from tests.store.books import Books, Customer

BYTES_MAX = 1024
NAMES = [f"{number:032x}" for number in range(4)]


class Site:
    """The stored responses of a site that keeps them, and an account."""

    def __init__(self, service: Service, customer: Customer, folder: Path) -> None:
        self.service = service
        self.customer = customer
        self.folder = folder
        self.reserve(0)

    def reserve(self, size_bytes: int) -> None:
        """The free space that the disk must have."""
        self.space = FreeSpace(self.folder, size_bytes)
        settings = Settings(data=str(self.folder), body_max_bytes=BYTES_MAX, speech="none")
        made = self.service
        parts = (made.db, made.ledger, made.config, made.quota, self.space)
        self.stored = StoredResponses(settings, *parts)

    async def earlier(self, **fields: Any) -> Earlier | None:
        caller = UnverifiedCaller(self.customer.key_hash, Scope.CHAT)
        request = ResponsesRequest(**{"model": "m", "input": "hi"} | fields)
        return await self.stored.earlier(caller, request, referenced_in(request.input))

    async def put(self, place: int, text: str = "", items: Any = "hi", previous: str | None = None) -> str:
        response_id = "resp_" + NAMES[place]
        output = [{"type": "message", "role": "assistant", "content": text}]
        row = StoredResponse(
            response_id,
            previous,
            json.dumps(own_items(items)).encode(),
            json.dumps({"output": output}).encode(),
        )
        await self.stored.put(self.customer.account_id, row)
        return response_id


@pytest.fixture
async def site(books: Books, tmp_path: Path) -> Site:
    await perform(books.db, SetSetting(name="responses_keep_days", value="1"))
    made = Site(await service_on(books.db, tmp_path), await books.customer(), tmp_path)
    await made.space.refresh()
    return made


def reference(place: int) -> dict[str, str]:
    return {"id": f"msg_{NAMES[place]}_0"}


async def test_a_site_that_keeps_none_continues_none(books: Books, site: Site) -> None:
    await perform(books.db, SetSetting(name="responses_keep_days", value="0"))
    await site.service.config.refresh()
    assert await site.earlier() is None


@pytest.mark.parametrize(("store", "stores"), [(None, True), (True, True), (False, False)])
async def test_a_response_is_stored_unless_the_request_says_no(
    site: Site, store: bool | None, stores: bool
) -> None:
    earlier = await site.earlier(store=store)
    assert earlier is not None and earlier.stores is stores


async def test_references_are_resolved_also_in_what_is_continued(site: Site) -> None:
    await site.put(0, "zero")
    first = await site.put(1, "one", [reference(0), {"role": "user", "content": "more"}])
    earlier = await site.earlier(previous_response_id=first, input=[reference(1), reference(3)])
    assert earlier is not None
    before, own = earlier.resolved([reference(1), reference(3), reference(1)])
    assert [item.get("content") for item in before] == ["zero", "more", "one"]
    assert own[0]["content"] == "one"
    assert own[1:] == [reference(3), reference(1)], "each item is put in once"


async def test_a_conversation_has_as_many_bytes_as_a_request(site: Site) -> None:
    first = await site.put(0, "x" * 250)
    second = await site.put(1, "x" * 250, previous=first)
    third = await site.put(2, "x" * 250, previous=second)
    assert await site.earlier(previous_response_id=second)
    for fields in ({"previous_response_id": third}, {"input": [reference(0), reference(1), reference(2)]}):
        with pytest.raises(InvalidRequest, match=r"1024 bytes"):
            await site.earlier(**fields)


async def test_an_account_at_its_quota_stores_no_more(
    books: Books, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(quota_module, "SHARE_MAX", 1e9)
    await site.put(0)
    await perform(books.db, SetSetting(name="account_storage_mib", value="1"))
    await site.service.config.refresh()
    await site.service.quota.refresh()
    assert await site.earlier()
    await books.sql("UPDATE stored_responses SET bytes = 1048576")
    await site.service.quota.refresh()
    with pytest.raises(InsufficientQuota):
        await site.earlier()
    assert await site.earlier(store=False)


async def test_a_disk_below_its_reserve_stores_no_more(site: Site) -> None:
    site.reserve(2**60)
    await site.space.refresh()
    with pytest.raises(DiskFull, match="new responses"):
        await site.earlier()
    assert await site.earlier(store=False)


SLOW, WORDS = 12, 100
SENT_KB = 20 * 1024
"""Of each slow stream: more than the buffers of its sockets, which take up to 16 MB."""
MEMORY_MAX_BYTES = 256 * 1024
"""Of a stream whose client does not read."""


def stream(caller: Caller, text: str, receive_bytes: int = 0) -> EventReader:
    body = {"model": "svc-chat", "stream": True, "messages": [{"role": "user", "content": text}]}
    url = f"{caller.service.root_url}/openai/v1/chat/completions"
    return EventReader(url, caller.key.plain, body, receive_bytes=receive_bytes)


def memory_bytes(pid: int) -> int:
    (line,) = [line for line in proc_file(pid, "status").splitlines() if line.startswith("VmRSS:")]
    return int(line.split()[1]) * 1024


def check_quick_stream(caller: Caller) -> None:
    with stream(caller, f"fault=words:{WORDS}") as answer:
        assert answer.rest().is_done and answer.text.split() == [f"w{n}" for n in range(WORDS)]


@pytest.fixture
def caller(make_service: ServiceMaker, upstream: Upstream) -> Iterator[Caller]:
    service = make_service(
        chat_url=upstream.url, chat_key=upstream.key, chat_model=upstream.model, speech="none"
    )
    yield make_caller(service.start())
    assert service.command("audit", "--json").code == 0


def test_slow_readers_cost_little_memory_and_nothing_of_the_streams_of_others(
    caller: Caller, upstream: Upstream
) -> None:
    for _ in range(SLOW):
        check_quick_stream(caller)
    service_pid, before = caller.service.pid, memory_bytes(caller.service.pid)
    upstream.forget()
    seen = [0]

    def paused() -> bool:
        last, seen[0] = seen[0], sum(one.sent_bytes for one in upstream.streams)
        return last == seen[0]

    with ExitStack() as opened:
        for _ in range(SLOW):
            slow = opened.enter_context(stream(caller, f"fault=much:{SENT_KB}", receive_bytes=4096))
            assert slow.next_event()
        check_quick_stream(caller)
        wait_until(paused, SOON_S, "no slow stream is read any more", every_s=0.5)
        grown = memory_bytes(service_pid) - before
        assert grown < SLOW * MEMORY_MAX_BYTES, f"{grown / SLOW / 1024:.0f} KB for each slow stream"
        assert all(one.sent_bytes < SENT_KB * 1024 for one in upstream.streams if one.sent_bytes > 10**6)
        for _ in range(SLOW):
            check_quick_stream(caller)
        with stream(caller, "fault=pause one two") as waiting:
            assert waiting.next_event() and b"pause" in waiting.next_event()
            upstream.release()
            assert waiting.rest().is_done
        assert upstream.abandoned == 0  # a client that reads nothing for a minute is disconnected
        assert memory_bytes(service_pid) - before < SLOW * MEMORY_MAX_BYTES

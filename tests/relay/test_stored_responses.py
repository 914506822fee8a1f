"""What a request may continue, and when nothing is stored: decided before the charge."""

import json
from pathlib import Path
from typing import Any

import pytest

from myna import quota as quota_module
from myna.actions.settings import SetSetting
from myna.errors import DiskFull, InvalidRequest, StorageQuotaReached
from myna.keys import Scope, UnverifiedCaller
from myna.relay.stored_responses import Earlier, StoredResponses, own_items, referenced_in
from myna.service import Service
from myna.settings import Settings
from myna.store.files.free_space import FreeSpace
from myna.store.queries.stored_responses import StoredResponse
from myna.wire.responses.request import ResponsesRequest
from tests.maintenance.serving import service_on
from tests.rig.actors import perform
from tests.store.books import Books, Customer

pytestmark = pytest.mark.anyio
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
    with pytest.raises(StorageQuotaReached):
        await site.earlier()
    assert await site.earlier(store=False)


async def test_a_disk_below_its_reserve_stores_no_more(site: Site) -> None:
    site.reserve(2**60)
    await site.space.refresh()
    with pytest.raises(DiskFull, match="new responses"):
        await site.earlier()
    assert await site.earlier(store=False)

"""Responses that the site keeps for some days, so that a later request of the same account can continue them.

Source: `store`, `previous_response_id` and references to items of OpenAI's /responses. A row has the items of
one request and its response; those that it continues are read again each time.
"""

from collections.abc import Awaitable
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from msgspec import Struct

from myna.accounts.keys import UnverifiedCaller
from myna.billing.ledger import Ledger
from myna.billing.quota import Quota
from myna.config import ConfigCache
from myna.errors import DiskFull, InvalidRequest, NotFound
from myna.http.request import read_body
from myna.settings import Settings
from myna.store.database import Database, in_time
from myna.store.files.storage import FreeSpace
from myna.store.queries import stored_responses as store
from myna.store.queries.stored_responses import StoredResponse
from myna.wire.lenient import loads, objects_of
from myna.wire.responses.output import response_and_place
from myna.wire.responses.request import ResponsesRequest, reference_of

T = TypeVar("T")
NO_SPACE: Final = (
    "The disk has no space for new responses; nothing was charged, send store: false or try again later."
)
_REFERENCE: Final = b'"item_reference"'
_REFERENCE_TYPE: Final = {"type": "item_reference"}
REFERENCED_MAX: Final = 1000
"""Responses whose items one request may refer to: each is a query."""


class Earlier(Struct, frozen=True):
    """What a request continues: responses, the oldest first, and those whose items it refers to, by id. With
    `stores`, its response is kept."""

    stores: bool
    continued: list[StoredResponse]
    referenced: dict[str, StoredResponse]

    @property
    def size_bytes(self) -> int:
        return sum(row.size_bytes for row in (*self.continued, *self.referenced.values()))

    def resolved(self, own: list[dict[str, Any]]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        """The items before those of the request, and its own, with items in place of references that are
        known. Each is put in once: a reference is short, and its item may be large."""
        before = [item for row in self.continued for item in (*_items(row.input), *_output(row))]
        output: dict[tuple[str, int] | None, dict[str, Any]] = {
            (row.id, place): item
            for row in self.referenced.values()
            for place, item in enumerate(_output(row))
        }
        items = [output.pop(_place_of(item), item) for item in (*before, *own)]
        return items[: len(before)], items[len(before) :]


@dataclass(frozen=True, slots=True, eq=False)
class StoredResponses:
    """The stored responses of a process. A conversation may have as many bytes as a request."""

    settings: Settings
    db: Database
    ledger: Ledger
    config: ConfigCache
    quota: Quota
    space: FreeSpace

    async def earlier(
        self, caller: UnverifiedCaller, request: ResponsesRequest, referenced: list[str]
    ) -> Earlier | None:
        """What this request continues, which refers to items of the responses `referenced`; None on a site
        that keeps no responses. Raises InvalidRequest, DiskFull, InsufficientQuota, and Unauthorized if it
        has to look up the account."""
        if not self.config.settings.responses_keep_days:
            return None
        stores, continues = request.store is not False, request.previous_response_id
        if stores and self.space.low:
            raise DiskFull(NO_SPACE)
        checks = stores and self.quota.any_reached
        account_id = 0
        if checks or continues is not None or referenced:
            account_id = await self.ledger.account_of(caller)
        if checks:
            self.quota.check(account_id)
        continued = [] if continues is None else await self._conversation(account_id, continues)
        inputs = [row.input for row in continued if _REFERENCE in row.input]
        size_bytes = sum(map(len, inputs))
        within = await read_body(lambda: referenced_in(_all(inputs)), size_bytes, caller.details.account_id)
        ids = [*referenced, *within]
        found = await self._referenced(account_id, list(dict.fromkeys(ids)))
        return Earlier(stores, continued, found)

    async def put(self, account_id: int, row: StoredResponse) -> None:
        """Stores a response. Raises DatabaseUnavailable."""
        await self._in_time(self.db.transaction(lambda db: store.put(db, account_id, row)))

    async def one(self, account_id: int, response_id: str) -> bytes:
        """The JSON of a response of the account. Raises NotFound."""
        row = await self._in_time(store.one(self.db, account_id, response_id))
        if row is None:
            raise _not_found(response_id)
        return row.answer

    async def delete(self, account_id: int, response_id: str) -> None:
        """Deletes a response of the account. Raises NotFound."""
        deleted = self.db.transaction(lambda db: store.delete(db, account_id, response_id))
        if not await self._in_time(deleted):
            raise _not_found(response_id)

    async def _in_time(self, query: Awaitable[T]) -> T:
        return await in_time(self.db, query, self.settings.charge_wait_s)

    async def _referenced(self, account_id: int, ids: list[str]) -> dict[str, StoredResponse]:
        """The responses of the account with these ids."""
        if not ids:
            return {}
        query = store.several(self.db, account_id, ids[:REFERENCED_MAX], self.settings.body_max_bytes)
        found = await self._in_time(query)
        size_bytes = sum(row.size_bytes for row in found.values())
        if len(ids) > REFERENCED_MAX or size_bytes > self.settings.body_max_bytes:
            raise InvalidRequest(
                f"refers to items of more than {REFERENCED_MAX} responses, or of more than"
                f" {self.settings.body_max_bytes} bytes.",
                field="input",
            )
        return found

    async def _conversation(self, account_id: int, response_id: str) -> list[StoredResponse]:
        """The response after those that it continues."""
        query = store.conversation(self.db, account_id, response_id, self.settings.body_max_bytes)
        rows = await self._in_time(query)
        if sum(row.size_bytes for row in rows) > self.settings.body_max_bytes:
            raise InvalidRequest(
                f"the conversation has more than {self.settings.body_max_bytes} bytes; begin a new one.",
                field="previous_response_id",
            )
        if not rows or rows[0].previous_id is not None:
            raise _no_previous(rows[0].previous_id if rows else response_id)
        return rows


def referenced_in(items: str | list[dict[str, Any]]) -> list[str]:
    """The ids of the responses whose items these refer to."""
    places = [_place_of(item) for item in items] if isinstance(items, list) else []
    return list(dict.fromkeys(place[0] for place in places if place))


def own_items(value: str | list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The input of a request as items, of which each reference has its type."""
    if isinstance(value, str):
        return [{"type": "message", "role": "user", "content": value}]
    return [item | _REFERENCE_TYPE if reference_of(item) else item for item in value]


def _no_previous(response_id: str | None) -> InvalidRequest:
    """The response or one that it continues is not stored, or is another account's."""
    error = InvalidRequest(
        "there is no response {id!r}; it may have been deleted. Send the earlier items in input.",
        field="previous_response_id",
        id=str(response_id)[:100],
    )
    error.code = "previous_response_not_found"
    return error


def _not_found(response_id: str) -> NotFound:
    return NotFound("There is no response {id!r}; it may have been deleted.", id=response_id[:100])


def _items(value: bytes) -> list[dict[str, Any]]:
    return objects_of(loads(value))


def _all(values: list[bytes]) -> list[dict[str, Any]]:
    return [item for value in values for item in _items(value)]


def _output(row: StoredResponse) -> list[dict[str, Any]]:
    return objects_of(loads(row.answer).get("output"))


def _place_of(item: dict[str, Any]) -> tuple[str, int] | None:
    """The response, and the place in its output, that this item refers to."""
    reference = reference_of(item)
    return response_and_place(reference) if reference else None

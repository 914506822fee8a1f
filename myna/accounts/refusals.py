"""Refused requests of /v1: the last one of each key, and the last one without a valid key of each address.

A process keeps the refusals of keys in memory and stores them every second, one row for each key, so that the
pages see those of all processes, also after a restart. Refusals without a valid key have no account that may
read them. They stay in the memory of the process that refused them, and only the page that shows a new key
looks them up, by the address of the person who waits for its first request.
"""

from collections import OrderedDict
from http import HTTPStatus
from typing import TypeVar

from myna.lib.telemetry.requests import CompletedRequest
from myna.store.database import Database, Transaction
from myna.store.queries import keys as store
from myna.store.queries.keys import Refusal

K = TypeVar("K")

REMEMBERED_MAX = 1000
"""Keys, and addresses, whose last refusal a process has in memory."""
STORED_MAX = 100
"""Rows that a process writes at once; the others follow with the next."""
TEXT_MAX_CHARS = 500
API_PREFIX = "/v1/"
CHAT_SUFFIX = "/chat/completions"
"""A client whose base URL lacks /v1 asks for this path."""
WITHOUT_KEY = (HTTPStatus.UNAUTHORIZED, HTTPStatus.NOT_FOUND, HTTPStatus.METHOD_NOT_ALLOWED)
"""The refusals of requests that named no valid key, or a path that has none."""


class Refusals:
    """The refusals of one process."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self._unsaved: OrderedDict[int, Refusal] = OrderedDict()
        self._by_address: OrderedDict[str, Refusal] = OrderedDict()

    def note(self, completed: CompletedRequest) -> None:
        """Notes a request that ended with an error, if it was meant for the API. The key is in its details if
        it is valid or once was."""
        details = completed.details
        if not completed.path.startswith(API_PREFIX) and not completed.path.endswith(CHAT_SUFFIX):
            return
        refusal = Refusal(
            key_id=details.key_id,
            at=int(completed.ended_at * 1000),
            status=completed.status,
            kind=details.error_type,
            message=details.message[:TEXT_MAX_CHARS],
            request=f"{completed.method} {completed.path}"[:TEXT_MAX_CHARS],
            request_id=completed.request_id,
        )
        if details.key_id:
            _remember(self._unsaved, details.key_id, refusal)
        elif completed.status in WITHOUT_KEY and completed.address:
            _remember(self._by_address, completed.address, refusal)

    def without_key(self, address: str) -> Refusal | None:
        """The last request from this address that this process refused because it named no valid key."""
        return self._by_address.get(address)

    async def store(self) -> None:
        """Stores the refusals since the last call, the oldest first. Those that can't be stored now are kept
        for the next call."""
        rows = list(self._unsaved.values())[:STORED_MAX]
        if not rows:
            return

        async def work(connection: Transaction) -> None:
            for row in sorted(rows, key=lambda one: one.key_id):
                await store.put_refusal(connection, row)

        await self._db.transaction(work)
        for row in rows:
            if self._unsaved.get(row.key_id) is row:
                del self._unsaved[row.key_id]


def _remember(refusals: OrderedDict[K, Refusal], key: K, refusal: Refusal) -> None:
    """Puts the refusal last, and forgets the oldest ones over the limit."""
    refusals[key] = refusal
    refusals.move_to_end(key)
    while len(refusals) > REMEMBERED_MAX:
        refusals.popitem(last=False)

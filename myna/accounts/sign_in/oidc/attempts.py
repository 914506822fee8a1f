"""Attempts: bind the provider's callback to the browser and, for a link, to the session that began it.

The state is in the address that the browser opens, the browser's token in a cookie; the database has the
SHA-256 of both. An attempt is used once, within ten minutes, by the browser that began it.
"""

import re
from enum import StrEnum
from typing import Final

from msgspec import Struct

from myna.accounts.sign_in import tokens
from myna.accounts.sign_in.oidc.refusal import Failure, OidcRefused
from myna.lib.net import client_network
from myna.store.database import Database, Transaction
from myna.store.queries import sign_in as store
from myna.store.queries.sign_in import AttemptRow

LIFE_MS: Final = 600_000
TOKEN: Final = re.compile(tokens.OIDC_PREFIX + "[0-9a-f]{64}")
"""A state, or the token of a browser."""
OF_NETWORK_MAX: Final = 200
"""Attempts of one client network at once; one more replaces the oldest."""
OF_PROXY_MAX: Final = 1_000
"""The same for the loopback address, which all clients of a proxy on this machine have."""


class Purpose(StrEnum):
    """The purpose of an attempt."""

    SIGN_IN = "sign-in"
    LINK = "link"
    CONFIRM = "confirm"


class Begun(Struct, frozen=True):
    """An attempt that has begun, with the state that only the address has."""

    state: str
    row: AttemptRow

    def __repr__(self) -> str:
        return f"Begun({self.row!r})"


async def begin(
    db: Database, purpose: Purpose, *, browser: str, session_id: int, target: str, address: str
) -> Begun:
    """Begins an attempt of the browser with this token. `target` is the page to open afterwards."""
    state = tokens.new(tokens.OIDC_PREFIX)
    row = AttemptRow(
        nonce=tokens.new(tokens.OIDC_PREFIX),
        verifier=tokens.new(tokens.OIDC_PREFIX),
        purpose=purpose.value,
        session_id=session_id,
        target=target,
        created_at=0,
    )
    network = client_network(address)

    async def work(connection: Transaction) -> None:
        await store.begin_attempt(connection, tokens.hash_of(state), tokens.hash_of(browser), row, network)
        await store.delete_oldest_attempts(connection, network, OF_NETWORK_MAX if network else OF_PROXY_MAX)

    await db.transaction(work)
    return Begun(state, row)


async def take(db: Database, state: str, browser: str) -> AttemptRow:
    """Uses the attempt. Raises OidcRefused if it was used, has expired, or is another browser's."""
    if not (TOKEN.fullmatch(state) and TOKEN.fullmatch(browser)):  # costs no write
        raise OidcRefused(Failure.EXPIRED, "the callback has no state, or its browser no token")
    state_hash, browser_hash = tokens.hash_of(state), tokens.hash_of(browser)
    found = await db.transaction(
        lambda connection: store.take_attempt(connection, state_hash, browser_hash, LIFE_MS)
    )
    if found is None:
        raise OidcRefused(Failure.EXPIRED, "no attempt of this browser has this state")
    return found


async def remove_expired(db: Database) -> None:
    """Deletes expired attempts."""
    await db.transaction(lambda connection: store.delete_expired_attempts(connection, LIFE_MS))

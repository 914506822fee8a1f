"""The caps of keys in the batch on SQLite. Only charges and refunds of capped keys run these statements."""

from collections.abc import Mapping
from typing import cast

import apsw

from myna.store.batch import RefusalReason

_TAKE = """
UPDATE key_caps SET used = used + ?2
WHERE key_id = ?1 AND used + ?2 <= units AND ends_at > ?3 RETURNING starts_at
"""
_HAS_ENDED = "SELECT 1 FROM key_caps WHERE key_id = ?1 AND ends_at <= ?2"
_GIVE_BACK = "UPDATE key_caps SET used = used - ?3 WHERE key_id = ?1 AND starts_at = ?2"


def take(db: apsw.Connection, key_id: int, units: int, now: int) -> int | RefusalReason:
    """Takes units from the cap of a key. Returns the start of its period, or why it refuses."""
    for (starts_at,) in db.execute(_TAKE, (key_id, units, now)).fetchall():
        return cast(int, starts_at)
    ended = db.execute(_HAS_ENDED, (key_id, now)).fetchall()
    return RefusalReason.PERIOD if ended else RefusalReason.CAP


def give_back(db: apsw.Connection, refunds: Mapping[tuple[int, int], int]) -> None:
    """Gives units back, by key and start of the period in which they were charged. A period that is over is
    not changed."""
    for (key_id, starts_at), units in refunds.items():
        db.execute(_GIVE_BACK, (key_id, starts_at, units))

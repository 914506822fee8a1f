"""The errors of charges that were refused: their sentences."""

from typing import assert_never

from myna.accounts import caps, limits
from myna.errors import (
    InsufficientQuota,
    InvalidRequest,
    ModelNotFound,
    MynaError,
    Unauthorized,
    sentences,
)
from myna.store.batch import ChargeRefused, RefusalReason
from myna.store.database import Queries
from myna.store.queries import config as config_store

REUSED = "this one came with another path or body before; use a new one."


async def for_key(db: Queries, key_id: int, error: MynaError) -> MynaError:
    """The error of a request that can't be planned, as a valid key may see it: the name of a route that the
    key may not use is left out."""
    if not isinstance(error, ModelNotFound) or not error.route:
        return error
    allowed = await config_store.routes_of_key(db, key_id)
    return ModelNotFound(error.model, error.why) if allowed is None or error.route in allowed else error


async def error_of(
    db: Queries, refused: ChargeRefused, units: int, route: str, *, key_id: int, zone: str
) -> MynaError:
    """The error of a refused charge of `units` on `route`, whose key is valid. `zone` is the site's time
    zone."""
    match refused.why:
        case RefusalReason.KEY:
            return Unauthorized("This API key was changed in this moment; try again.")
        case RefusalReason.ROUTE:
            return ModelNotFound(route)
        case RefusalReason.REUSED:
            return InvalidRequest(REUSED, field="Idempotency-Key")
        case RefusalReason.RATE:
            return InsufficientQuota(sentences.SPEECH_NOT_IN_SCOPE)
        case RefusalReason.UNITS:
            return InsufficientQuota(sentences.NO_UNITS, balance=refused.balance, units=units)
        case RefusalReason.CAP:
            return await caps.refusal(db, key_id, units, zone)
        case RefusalReason.RPM | RefusalReason.CONCURRENT | RefusalReason.UNITS_PER_DAY:
            return limits.error_of(refused, units)
        case RefusalReason.STALE | RefusalReason.PENDING | RefusalReason.PERIOD | RefusalReason.BUSY:
            raise AssertionError(f"a charge that is {refused.why} is sent again")
        case never:
            assert_never(never)

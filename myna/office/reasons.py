"""Why a call was refunded, or kept with an incomplete answer, in words: by the reason that is stored."""

from myna.errors import (
    ClientDisconnected,
    InvalidRequest,
    RequestRefused,
    StreamFailed,
    StreamUnread,
    UpstreamFailed,
)
from myna.office.messages import N_
from myna.office.visit import Visit

CANCELLED = N_("the request was cancelled")
PHRASES = {
    ClientDisconnected.__name__: N_("the client disconnected"),
    InvalidRequest.__name__: N_("the request could not be answered"),
    RequestRefused.__name__: N_("the channels refused the request"),
    StreamFailed.__name__: N_("the channel broke off its answer"),
    StreamUnread.__name__: N_("the client did not read it in time"),
    UpstreamFailed.__name__: N_("no channel could answer"),
    "CancelledError": CANCELLED,
    "the caller stopped waiting": CANCELLED,
    "left open": N_("the service was interrupted"),
    "not done in time": N_("it was not done in time"),
    "no compute node finished it": N_("no compute node finished it"),
    "the voice was deleted": N_("the voice was deleted"),
}
OTHERWISE = N_("another error, which the operator can see")


def phrase(visit: Visit, reason: str) -> str:
    """The reason in the language of the page. Another one is shown to operators as it is stored, since it may
    be the message of a compute node."""
    if reason in PHRASES:
        return visit.text(PHRASES[reason])
    return visit.renderer.stored(reason) if visit.account.operator else visit.text(OTHERWISE)

"""The places for requests to channels in one process: for each account and each channel a share of all.

A request waits for a place for at most WAIT_S. A channel that does not answer takes its own places, and the
others serve on. An account gets half of a channel's places, so that it leaves some to others on each channel.
"""

import math
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from myna.errors import Overloaded
from myna.lib.shares import Shares
from myna.lib.telemetry import metrics

WAIT_S: Final = 1.0
RETRY_AFTER_S: Final = 1
CHANNEL_SHARE: Final = 0.75
"""Of all places, for a channel without a limit of its own."""
ACCOUNT_SHARE: Final = 0.75
"""Of all places, for one account."""
ACCOUNT_SHARE_OF_CHANNEL: Final = 0.5


class ChannelFull(Exception):
    """The channel, or the account on this channel, has as many requests open as it may have."""


class Outbound:
    """`total` places for requests to channels. What waits for a channel has none of them, so the places of an
    account, in all and on a channel, are counted without a total."""

    def __init__(self, total: int) -> None:
        self._total = total
        self._accounts = Shares[int](
            sys.maxsize,
            _part(total, ACCOUNT_SHARE),
            lambda: Overloaded(
                "This account has as many calls open as it may have; the units were refunded, try again.",
                RETRY_AFTER_S,
            ),
        )
        self._channels = Shares[str](total, _part(total, CHANNEL_SHARE), ChannelFull, _show)
        self._on_channels = Shares[tuple[str, int]](sys.maxsize, total, ChannelFull)

    @asynccontextmanager
    async def place(self, channel: str, concurrent: int, account_id: int) -> AsyncIterator[None]:
        """Has a place for a request of the account, 0 for the operator. The channel may have `concurrent`
        places, or with 0 its share. Raises Overloaded for the account, ChannelFull."""
        most = min(concurrent or self._channels.share, self._total)
        await self._accounts.wait_for(account_id, WAIT_S)
        try:
            of_channel = _part(most, ACCOUNT_SHARE_OF_CHANNEL)
            await self._on_channels.wait_for((channel, account_id), WAIT_S, of_channel)
            try:
                await self._channels.wait_for(channel, WAIT_S, most)
                try:
                    yield
                finally:
                    self._channels.release(channel)
            finally:
                self._on_channels.release((channel, account_id))
        finally:
            self._accounts.release(account_id)


def _part(places: int, share: float) -> int:
    return math.ceil(places * share)


def _show(channel: str, places: int) -> None:
    metrics.levels[metrics.places_of(channel)] = places

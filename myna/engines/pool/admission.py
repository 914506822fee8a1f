"""Admission control of an engine: reserves a slot for a request before it is charged.

The slot is released when the work ends, before a refund, so requests that are being charged count as well as
those that wait or run. The limits are per account: an account that exceeds its share is refused alone.
"""

import math
from collections import Counter
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final, Self

from msgspec import Struct

LONG_S: Final = 600.0
"""A text that makes more sound than this is long: long texts use at most half of the processes."""
PACE_INITIAL: Final = 0.01
"""Twice what espeak-ng takes on one core."""
PACE_WEIGHT: Final = 0.1
PACE_SOUND_S: Final = 60.0
"""A shorter text weighs less, since its fixed cost dominates."""
WAIT_SHARE_MAX: Final = 0.75
"""The estimate may fill this share of a job's time. The rest is a margin for its error."""
ACCOUNT_FULL: Final = (
    "This account has as many texts waiting to be spoken as one account may have; nothing was charged, try"
    " again when one of them is done."
)
ENGINE_FULL: Final = "As many texts wait to be spoken as may; nothing was charged, try again later."
TOO_LONG: Final = (
    "This text takes longer to speak than a call may take; nothing was charged, send it in parts."
)
TOO_LATE: Final = (
    "The speech engine has more to speak than it can in time; nothing was charged, try again later."
)


def is_long(sound_s: float) -> bool:
    """Whether a text of `sound_s` seconds of sound is long."""
    return sound_s > LONG_S


def long_max(processes: int) -> int:
    """How many of the processes may run long texts at a time."""
    return max(1, processes // 2)


class _AccountUse(Struct):
    """The slots of one account and their estimated seconds of sound."""

    count: int = 0
    sound_s: float = 0.0


@dataclass(eq=False)
class Admission:
    """The slots of an engine: one for each of `processes`, and `queue_max`. An account has at most
    `account_max`, and at most one for each process and half of the queue. `pace` is the seconds of work for a
    second of sound until it is measured. `processes_per_text` work on one text. Accounts have turns of at
    most `turn_s` seconds of sound: by default of a whole text."""

    processes: int
    queue_max: int
    account_max: int
    pace: float = PACE_INITIAL
    processes_per_text: int = 1
    turn_s: float = math.inf
    _measured_pace: float = field(init=False)
    _in_use: int = field(default=0, init=False)
    _counts: Counter[Hashable] = field(default_factory=Counter, init=False)
    _lanes: dict[bool, dict[Hashable, _AccountUse]] = field(init=False)

    def __post_init__(self) -> None:
        self._measured_pace = self.pace
        self._lanes = {False: {}, True: {}}

    def share(self, workers: int) -> "Admission":
        """The slots of one of so many workers, which share the engine. As many processes as before speak a
        text."""
        processes = max(1, self.processes // workers)
        return replace(self, processes=processes, queue_max=self.queue_max // workers)

    def refusal(self, account: Hashable, sound_s: float, within_s: float, begins_s: float = math.inf) -> str:
        """Why a text of the account with `sound_s` seconds of sound gets no slot; empty if it gets one.

        `within_s` is its time limit, waiting included, and `begins_s` that of its first turn.
        """
        if self._counts[account] >= min(self.account_max, self.processes + self.queue_max // 2):
            return ACCOUNT_FULL
        if self._in_use >= self.processes + self.queue_max:
            return ENGINE_FULL
        if self._late_s(account, sound_s, within_s, begins_s) > 0:
            return TOO_LATE
        # By the initial pace: the measured one improves by jobs alone, so an idle engine must get some.
        possible_s = sound_s * self.pace / self.processes_per_text
        return TOO_LONG if possible_s > within_s else ""

    def retry_s(
        self, account: Hashable, sound_s: float, within_s: float, begins_s: float = math.inf
    ) -> float:
        """Seconds until a refused text may get a slot, at the measured pace: when each account has had one
        more text spoken and the texts ahead leave this one enough time."""
        uses = [use for lane in self._lanes.values() for use in lane.values()]
        round_s = sum(use.sound_s / use.count for use in uses) * self._measured_pace / self.processes
        return max(round_s, self._late_s(account, sound_s, within_s, begins_s))

    def acquire(self, account: Hashable, sound_s: float) -> None:
        """Adds a slot to the account's. `release` takes the same arguments."""
        self._in_use += 1
        self._counts[account] += 1
        use = self._lanes[is_long(sound_s)].setdefault(account, _AccountUse())
        use.count += 1
        use.sound_s += sound_s

    def release(self, account: Hashable, sound_s: float) -> None:
        """Releases a slot that `acquire` added."""
        self._in_use -= 1
        self._counts[account] -= 1
        if not self._counts[account]:
            del self._counts[account]
        lane = self._lanes[is_long(sound_s)]
        use = lane[account]
        use.count -= 1
        use.sound_s -= sound_s
        if not use.count:
            del lane[account]

    def measured(self, sound_s: float, work_s: float) -> None:
        """Records that a process took `work_s` for a text estimated at `sound_s` seconds of sound;
        nothing if one of them is 0, which is unknown."""
        if not sound_s or not work_s:
            return
        weight = PACE_WEIGHT * min(1.0, sound_s / PACE_SOUND_S)
        self._measured_pace += weight * (work_s / sound_s - self._measured_pace)

    def _late_s(self, account: Hashable, sound_s: float, within_s: float, begins_s: float) -> float:
        """By how many seconds the account's next text would miss its limits because of the texts ahead."""
        if not self._in_use:
            return 0.0
        own_s = sound_s * self._measured_pace / self.processes_per_text
        long = is_long(sound_s)
        ahead_s = self._ahead_s(account, sound_s, long=long) * self._measured_pace
        if not ahead_s:
            return 0.0
        first_s = self._ahead_s(account, 0.0, long=long) * self._measured_pace
        return max(ahead_s + own_s - WAIT_SHARE_MAX * within_s, first_s - WAIT_SHARE_MAX * begins_s)

    def _ahead_s(self, account: Hashable, sound_s: float, *, long: bool) -> float:
        """Seconds of sound ahead of the end of the account's next text, for each process that speaks them.

        All texts of the account are ahead. Of each other account, as many as the account has itself are: the
        queue is fair. Where the turns are short, no more than the account's own sound and a turn is. A single
        process speaks long and short texts in turns, so both are ahead; so they are where all processes speak
        one text, in short pieces.
        """
        one_lane = self.processes == 1 or self.processes_per_text > 1
        lanes = list(self._lanes.values()) if one_lane else [self._lanes[long]]
        own = [lane[account] for lane in lanes if account in lane]
        own_s, own_count = sum(use.sound_s for use in own), sum(use.count for use in own)
        others_s = sum(
            min(use.sound_s * min(1.0, (own_count + 1) / use.count), own_s + sound_s + self.turn_s)
            for lane in lanes
            for other, use in lane.items()
            if other != account
        )
        if one_lane:
            return (own_s + others_s) / self.processes
        for_long = long_max(self.processes)
        speaking = for_long if long else max(1, self.processes - (for_long if self._lanes[True] else 0))
        return (own_s + others_s) / speaking


class Slot:
    """A request's slot, if it has one. The end of its block releases it, and so does `close`."""

    _release: Callable[[], None] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Releases the slot, if it has one."""
        if self._release is not None:
            self._release()
            self._release = None

    def acquire(
        self,
        admission: Admission,
        account: Hashable,
        sound_s: float,
        within_s: float,
        begins_s: float = math.inf,
    ) -> str:
        """Acquires a slot, or returns why there is none. Releases an earlier slot first."""
        self.close()
        refusal = admission.refusal(account, sound_s, within_s, begins_s)
        if not refusal:
            admission.acquire(account, sound_s)
            self._release = partial(admission.release, account, sound_s)
        return refusal

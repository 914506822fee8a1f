"""Chooses what will speak a text: a speech channel that accepts more work, or else a compute node.

The length of the sound is estimated from the characters, before the charge. The maximum per character was
measured with the embedded voices, in all their languages, at speed 1. Voices speak the name of an unknown
character ("Braille pattern dots-1345678", 2.2 s). Engines enforce the bound on the length, also if the
estimate is too low.
"""

import asyncio
import re
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import cached_property, lru_cache
from operator import mul
from typing import Final

import regex
from msgspec import Struct, structs

from myna.accounts.keys import UnverifiedCaller
from myna.billing.ledger import Ledger
from myna.billing.quota import Quota
from myna.channels.channels import Channels
from myna.channels.routes import Route
from myna.config import ConfigCache, SiteSettings
from myna.engines.interface import SPEED_MAX, SPEED_MIN
from myna.engines.pool.admission import TOO_LONG, Slot
from myna.engines.text.notation import flat
from myna.engines.text.signs import plain, speakable
from myna.engines.text.ssml import Unmarked, unmarked
from myna.errors import InvalidRequest, NoSpeechChannel, Overloaded, TextTooLong, Unavailable
from myna.farm.nodes import NO_NODES, Capacity, OnlineNodes
from myna.speech import catalogue as voices
from myna.store.batch import NewTask, TaskStatus
from myna.store.database import Database
from myna.store.files.storage import FreeSpace
from myna.store.queries import clones as clones_store
from myna.voices.lexicon import OFF_THE_LOOP_CHARS, Lexicons

_SCRIPTS: Final = (
    "α-ωΑ-Ω" "а-яА-ЯёЁ" "ء-غف-ي" "א-ת" "अ-हा-्" "ก-ๅ" "ぁ-ゖァ-ヺー" "가-힣"
)  # fmt: skip
# Maximum seconds per character; the first matching class applies.
_CLASSES: Final = (
    (regex.compile(r"[\n\r]"), 0.45),
    (regex.compile(r"[\p{Z}\p{Cc}\p{Cf}]"), 0.05),
    (regex.compile(r"[一-鿿]"), 0.35),
    (regex.compile(r"[A-Za-zÀ-ſ]"), 0.37),
    (regex.compile(r"[0-9]"), 0.65),
    (regex.compile(r"[。！？，、；：…“”‘’（）《》「」『』【】—·!-/:-@\[-`{-~]"), 0.45),
    (regex.compile(rf"[{_SCRIPTS}]"), 1.1),
)
_OTHER_S: Final = 2.3
TOO_LONG_A_QUEUE = (
    "The compute nodes have more to speak than they can in time; nothing was charged, try again later."
)
TOO_MANY_TASKS = (
    "This account has as many texts waiting for compute nodes as one account may have; nothing was charged,"
    " try again when some of them are done."
)
TASKS_MAX = 1000
"""Tasks of one account that wait for compute nodes or are in progress on them."""
_ACCOUNTS_CACHED_MAX = 50_000
_SPEED = re.compile(r"[0-9]{1,4}(\.[0-9]{1,12})?")


def sound_s(text: str, speed: float) -> float:
    """The maximum length of the sound, in seconds, at this speed."""
    counts = Counter(plain(text))
    seconds: float = sum(map(mul, counts.values(), map(_character_s, counts)))
    return seconds / speed


@lru_cache(maxsize=2**16)
def _character_s(character: str) -> float:
    return next((each_s for characters, each_s in _CLASSES if characters.match(character)), _OTHER_S)


def check_sound(text: str, speed: float, sound_max_s: int) -> float:
    """Returns the estimate in seconds. Raises InvalidRequest if it is above `sound_max_s`."""
    seconds = sound_s(text, speed)
    if seconds > sound_max_s:
        raise InvalidRequest(
            "would make up to {minutes} minutes of sound at this speed; at most {most} are made of one text."
            " Send less text, or a higher speed.",
            field="text",
            minutes=_minutes(seconds),
            most=_minutes(sound_max_s),
        )
    return seconds


def _minutes(seconds: float) -> str:
    return f"{seconds / 60:.1f}".removesuffix(".0")


class CheckedSpeech(Struct, frozen=True):
    """The text to speak. Without `voice_id` the first voice of the list speaks. A channel may take
    `channel_s` seconds; a node must finish within `node_s` seconds of the order. With `streams` the sound is
    sent while a channel makes it. `language` is that of the text, by default the voice's; voices of Kokoro
    read by it. A route with channels is served by these alone, not by nodes. The text has at most `chars_max`
    characters, by default those of the site setting `tts_max_chars`."""

    text: str
    voice_id: str | None
    speed: float
    channel_s: float
    node_s: float
    route: Route | None = None
    streams: bool = False
    language: str = ""
    chars_max: int | None = None


class SpeechPlan(Struct, frozen=True, dict=True):
    """The request, its text in notation, its voice, and the channels and nodes that can speak it. The text
    makes at most `sound_s` seconds of sound by estimate; the engine stops at `sound_max_s`. `slot` is the
    request's in the engine."""

    request: CheckedSpeech
    text: str
    choice: voices.VoiceChoice
    sound_s: float
    sound_max_s: int
    slot: Slot

    @cached_property
    def by_node(self) -> bool:
        """Whether a compute node will speak, since no channel accepts the text."""
        return all(channel.full for channel in self.choice.channels)

    @property
    def seconds(self) -> float:
        """How long the work may take."""
        return self.request.node_s if self.by_node else self.request.channel_s

    @property
    def voice_id(self) -> str:
        return self.choice.voice.voice_id

    @property
    def task(self) -> NewTask:
        """The task: queued for a node, or processing without a lease on a channel."""
        status = TaskStatus.QUEUED if self.by_node else TaskStatus.PROCESSING
        return NewTask(
            text=self.request.text,
            voice_id=self.voice_id,
            speed=self.request.speed,
            status=status,
            language=self.request.language,
        )


@dataclass(eq=False)
class Planner:
    """Makes speech plans from this process's channels and the compute nodes in the database. A channel has
    `try_s` seconds for a text, or until the first sound of one that is streamed."""

    db: Database
    ledger: Ledger
    config: ConfigCache
    channels: Channels
    capacity: Capacity
    space: FreeSpace
    quota: Quota
    try_s: float

    def __post_init__(self) -> None:
        self._lexicons = Lexicons(self.db, self.config)
        self._accounts: dict[bytes, int] = {}

    @asynccontextmanager
    async def requiring_channel(self) -> AsyncIterator[None]:
        """Raises the 503 of a service without any speech channel before the 400 of a bad request."""
        try:
            yield
        except (InvalidRequest, NoSpeechChannel):
            await self.require_channel()
            raise

    async def require_channel(self) -> None:
        """Raises NoSpeechChannel if no voice is usable now, DiskFull if audio can't be stored."""
        self.space.check()
        config = await self.config.with_nodes()
        voices.require_channel(self.channels, config, await self.capacity.nodes(config))

    async def plan(self, caller: UnverifiedCaller, request: CheckedSpeech, slot: Slot) -> SpeechPlan:
        """Checks the text and chooses what will speak it. Acquires `slot` if an engine with a queue will.
        Raises InvalidRequest, DiskFull, NoSpeechChannel, Overloaded, TextTooLong, InsufficientQuota, and
        Unauthorized if it has to look up the account."""
        slot.close()
        config = await self.config.with_nodes()
        settings = self.config.settings
        if OFF_THE_LOOP_CHARS < len(request.text) <= (request.chars_max or settings.tts_max_chars):
            text, sound_s = await asyncio.to_thread(checked, request, settings)
        else:
            text, sound_s = checked(request, settings)
        caller.details.unspoken = dict(text.removed)
        self.space.check()
        route = request.route
        nodes = NO_NODES if route and route.channels else await self.capacity.nodes(config)
        clones = []
        if nodes and voices.needs_clones(self.channels, config, nodes, request.voice_id):
            clones = await clones_store.ready(self.db, await self.ledger.account_of(caller))
        choice = voices.choose(
            *(self.channels, config, nodes, clones, request.voice_id, route),
            recipes=settings.voice_recipes == "accept",
        )
        choice, refusal = await self._with_slot(caller, request, choice, sound_s, slot)
        plan = SpeechPlan(
            request=request,
            text=text.text,
            choice=choice,
            sound_s=sound_s,
            sound_max_s=settings.tts_max_sound_s,
            slot=slot,
        )
        if plan.by_node:
            await self._check_queue(caller, plan, nodes, refusal)
        if self.quota.any_reached:
            self.quota.check(await self._account_of(caller))
        return plan

    async def with_readings(self, plan: SpeechPlan, account_id: int) -> SpeechPlan:
        """The plan with the readings of the account's words. Raises DatabaseUnavailable."""
        return structs.replace(plan, text=await self._lexicons.with_readings(plan.text, account_id))

    def queued(self, account_id: int, plan: SpeechPlan) -> None:
        """Adds the plan's task to the estimate of the queue."""
        self.capacity.count_new_task(account_id, plan.voice_id, len(plan.request.text))

    async def _with_slot(
        self,
        caller: UnverifiedCaller,
        request: CheckedSpeech,
        choice: voices.VoiceChoice,
        sound_s: float,
        slot: Slot,
    ) -> tuple[voices.VoiceChoice, Unavailable | None]:
        """Acquires `slot` of the engine that will speak, if that has a queue. Returns the choice, in which
        the engine's channel is full if it refused, and the error to raise then if no node can speak."""
        first = next((channel for channel in choice.channels if not channel.full), None)
        if first is None or first.engine.admission is None:
            return choice, None
        account_id = await self._account_of(caller)
        within_s = request.channel_s if request.streams else min(request.channel_s, self.try_s)
        admission = first.engine.admission
        refusal = slot.acquire(admission, account_id, sound_s, within_s, self.try_s)
        if not refusal:
            return choice, None
        full = structs.replace(first, full=True)
        channels = tuple(full if channel is first else channel for channel in choice.channels)
        choice = structs.replace(choice, channels=channels)
        if refusal == TOO_LONG:
            return choice, TextTooLong(refusal)
        return choice, Overloaded(refusal, admission.retry_s(account_id, sound_s, within_s, self.try_s))

    async def _account_of(self, caller: UnverifiedCaller) -> int:
        """The account of the caller's key, cached: a key never changes its account. The charge checks whether
        the key is valid."""
        account_id = self._accounts.get(caller.key_hash)
        if account_id is None:
            account_id = await self.ledger.account_of(caller)
            if len(self._accounts) >= _ACCOUNTS_CACHED_MAX:
                self._accounts.clear()
            self._accounts[caller.key_hash] = account_id
        return account_id

    async def _check_queue(
        self, caller: UnverifiedCaller, plan: SpeechPlan, nodes: OnlineNodes, refusal: Unavailable | None
    ) -> None:
        if not plan.choice.nodes:
            raise refusal or Overloaded(retry_after_s=0)
        account_id = await self.ledger.account_of(caller)
        wait_s = await self.capacity.wait_s(
            account_id,
            len(plan.request.text),
            plan.choice.nodes,
            nodes,
            self.config.current,
            plan.request.node_s,
        )
        if await self.capacity.tasks_of(account_id) >= TASKS_MAX:
            raise Overloaded(TOO_MANY_TASKS, wait_s / TASKS_MAX)
        if wait_s > plan.request.node_s:
            raise NoSpeechChannel(TOO_LONG_A_QUEUE, wait_s - plan.request.node_s)


def checked(request: CheckedSpeech, settings: SiteSettings) -> tuple[Unmarked, float]:
    """Checks the text, and returns it without markup and how many seconds of sound it makes at most. Raises
    InvalidRequest."""
    text = check_text(request.text, request.chars_max or settings.tts_max_chars)
    return text, check_sound(request.text, request.speed, settings.tts_max_sound_s)


def check_text(text: str, chars_max: int) -> Unmarked:
    """The text without markup. Raises InvalidRequest for one that can't be spoken or is too long."""
    if len(text) > chars_max:  # first, so that the other checks are bounded
        raise InvalidRequest(
            "has {chars} characters; at most {most} are allowed.",
            field="text",
            chars=len(text),
            most=chars_max,
        )
    if not text.strip():
        raise InvalidRequest("must not be blank.", field="text")
    if "\0" in text:
        raise InvalidRequest("must not hold the character U+0000.", field="text")
    found = unmarked(text)
    if not speakable(flat(found.text)):
        raise InvalidRequest("holds nothing that can be spoken, neither a letter nor a digit.", field="text")
    return found


def read_speed(text: str | None) -> float:
    """The speed as a factor; `None` and an empty string are 1. Raises InvalidRequest."""
    if not text:
        return 1.0
    if not _SPEED.fullmatch(text) or not SPEED_MIN <= float(text) <= SPEED_MAX:
        raise InvalidRequest(
            "must be a decimal string from {least} to {most}.", field="speed", least=SPEED_MIN, most=SPEED_MAX
        )
    return float(text)

"""Who will speak a text: a channel of the site that takes one more, or else a compute node."""

import re

from msgspec import Struct

from myna import voices
from myna.channels import Channels
from myna.engines.reading_signs import speakable
from myna.engines.spoken import SPEED_MAX, SPEED_MIN
from myna.errors import InvalidRequest, NoSpeechChannel, Overloaded
from myna.ledger import Caller, Ledger
from myna.outlook import Nodes, Outlook
from myna.site import Site
from myna.store import clones as clones_store
from myna.store.batch import NewTask, TaskStatus
from myna.store.database import Database

TOO_LONG_A_QUEUE = (
    "The compute nodes have more to speak than they can in time; nothing was charged, try again later."
)
_SPEED = re.compile(r"[0-9]{1,4}(\.[0-9]{1,12})?")


class Wish(Struct, frozen=True):
    """What is to be spoken: no `voice_id` means the first voice of the list. A channel has `channel_s`
    seconds for it, a node `node_s` from the order on."""

    text: str
    voice_id: str | None
    speed: float
    channel_s: float
    node_s: float


class SpeechPlan(Struct, frozen=True):
    """What will be spoken, by which voice, and who can do it."""

    wish: Wish
    choice: voices.Choice

    @property
    def by_node(self) -> bool:
        """No channel of the site takes it: a compute node will speak."""
        return all(channel.full for channel in self.choice.channels)

    @property
    def seconds(self) -> float:
        """How long it may take."""
        return self.wish.node_s if self.by_node else self.wish.channel_s

    @property
    def voice_id(self) -> str:
        return self.choice.voice.voice_id

    @property
    def task(self) -> NewTask:
        """The record of the job: queued for a node, or at work from the start, without a lease."""
        status = TaskStatus.QUEUED if self.by_node else TaskStatus.PROCESSING
        return NewTask(self.wish.text, self.voice_id, self.wish.speed, status)


class Planner:
    """Finds voices and who speaks them, by what this process knows and what the database says of nodes."""

    def __init__(
        self, db: Database, ledger: Ledger, site: Site, channels: Channels, outlook: Outlook
    ) -> None:
        self._db, self._ledger, self._site = db, ledger, site
        self._channels, self._outlook = channels, outlook

    async def need_a_channel(self) -> None:
        """Raises NoSpeechChannel where nothing at all can speak now."""
        config = self._site.config
        voices.need_a_channel(self._channels, config, await self._outlook.nodes(config))

    async def plan(self, caller: Caller, wish: Wish) -> SpeechPlan:
        """Checks the text and finds who can speak it now. Raises InvalidRequest, NoSpeechChannel, Overloaded,
        and Unauthorized where it has to know whose key it is."""
        check_text(wish.text, self._site.settings.tts_max_chars)
        config = self._site.config
        nodes = await self._outlook.nodes(config)
        clones = []
        if nodes and voices.needs_clones(self._channels, config, nodes, wish.voice_id):
            clones = await clones_store.ready(self._db, await self._ledger.account_of(caller))
        choice = voices.choose(self._channels, config, nodes, clones, wish.voice_id)
        plan = SpeechPlan(wish, choice)
        if plan.by_node:
            await self._check_queue(caller, plan, nodes)
        return plan

    def queued(self, account_id: int, plan: SpeechPlan) -> None:
        """The plan's task waits for a node now."""
        self._outlook.ordered(account_id, plan.voice_id, len(plan.wish.text))

    async def _check_queue(self, caller: Caller, plan: SpeechPlan, nodes: Nodes) -> None:
        if not plan.choice.nodes:
            raise Overloaded
        account_id = await self._ledger.account_of(caller)
        chars, able = len(plan.wish.text), plan.choice.nodes
        if await self._outlook.wait_s(account_id, chars, able, nodes, self._site.config) > plan.wish.node_s:
            raise NoSpeechChannel(TOO_LONG_A_QUEUE)


def check_text(text: str, chars_max: int) -> None:
    """Raises InvalidRequest for a text that can't be spoken or is too long."""
    if not text.strip():
        raise InvalidRequest("text: must not be blank.")
    if len(text) > chars_max:
        raise InvalidRequest(f"text: has {len(text)} characters; at most {chars_max} are allowed.")
    if "\0" in text:
        raise InvalidRequest("text: must not hold the character U+0000.")
    if not speakable(text):
        raise InvalidRequest("text: holds nothing that can be spoken, neither a letter nor a digit.")


def read_speed(text: str | None) -> float:
    """The speed as a factor; `None` and an empty string are 1. Raises InvalidRequest."""
    if not text:
        return 1.0
    if not _SPEED.fullmatch(text) or not SPEED_MIN <= float(text) <= SPEED_MAX:
        raise InvalidRequest(f"speed: must be a decimal string from {SPEED_MIN} to {SPEED_MAX}.")
    return float(text)

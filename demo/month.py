"""`python -m demo.month`: a site after a month of use, to look around in. The same month each time.

The functions of the package make accounts, keys, grants and calls, on a clock that runs through the last 30
days. No model is asked. At the end the service speaks three texts.
"""

import asyncio
import math
import os
import random
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime
from functools import partial
from http import HTTPStatus
from operator import itemgetter

from msgspec import Struct

from demo.output import Output
from demo.program import DemoFailed, keep_running, run_demo, stops_after_tour
from demo.service import Service, choose_settings, exchange
from myna.accounts import keys
from myna.accounts.activity import Actor
from myna.accounts.keys import Scope
from myna.actions import Action, R, perform
from myna.actions.accounts import AddAccount, GrantUnits
from myna.actions.channels import AddChannel
from myna.actions.codes import AddCodes, RedeemCode
from myna.actions.keys import IssueKey, LimitKey, RevokeKey, SetKeyCap
from myna.actions.routes import AddRoute
from myna.cli.console import exclusive
from myna.lib.ids import first_of
from myna.settings import Settings
from myna.store.batch import CallState, Charge, End
from myna.store.database import Database
from myna.store.migrate import migrate
from myna.store.queries import config
from myna.store.sqlite import Sqlite

Event = Callable[[], Awaitable[None]]

DEFAULTS = {"data": "data/demo-month", "chat_url": "parrot:", "speech": "espeak"}
DAYS = 30
DAY_MS, HOUR_MS = 86_400_000, 3_600_000
SEED = 7
SATURDAY = 5
FAILED_SHARE = 0.03
OPERATOR = "ann"
BY = Actor(account_id=0, name="demo", address="")
HOURS = (1, 1, 1, 1, 1, 1, 2, 4, 8, 10, 10, 9, 7, 9, 10, 10, 9, 7, 6, 7, 8, 6, 3, 2)
"""How busy each hour of a day is."""
TEXTS = (
    ("en-us-female-1", "Good morning, and welcome to Myna."),
    ("zh-female-1", "你好，今天天气很好，我们一起去公园散步吧。"),
    ("zh-female-1", "会议改到下周三下午三点。"),
)
FAILURES = ("UpstreamFailed", "ClientDisconnected", "RequestRefused")


class Model(Struct, frozen=True):
    """A model: the units of a call, the channel that answers, and its typical time in milliseconds."""

    name: str
    units: int
    channel: str
    typical_ms: int
    pays: Scope = Scope.CHAT


CHAT = Model("svc-chat", 1, "local", 900)
LARGE = Model("gpt-4o", 5, "vendor", 2600)
SMALL = Model("gpt-4o-mini", 2, "vendor", 1300)
SPEECH = Model("tts-1", 1, "espeak", 350, Scope.TTS)


class Person(Struct, frozen=True):
    """An account, and for each of its keys the calls of a working day, on a weekend as a share of these."""

    name: str
    units: int
    keys: dict[str, tuple[int, tuple[Model, ...]]]
    weekend: float = 0.3
    email: str = ""
    from_day: int = 0


PEOPLE = (
    Person(
        OPERATOR, 6000, {"laptop": (20, (CHAT, SMALL, LARGE)), "nightly batch": (25, (SMALL, SPEECH))},
        weekend=0.8, email="ann@example.org",
    ),
    Person("class 7b", 2500, {"tablets": (45, (CHAT, CHAT, SPEECH))}, weekend=0.0),
    Person("support bot", 5000, {"website": (35, (CHAT, SMALL))}, weekend=0.9),
    Person("小明", 400, {"手机": (8, (CHAT, SPEECH))}, weekend=1.5, email="ming@example.org", from_day=6),
    Person("lab", 1500, {"notebook": (10, (LARGE, SMALL)), "old notebook": (4, (SMALL,))}, from_day=3),
    Person("guest", 40, {"trial": (3, (CHAT,))}, from_day=14),
)  # fmt: skip


class Month:
    """The events of a month, each of which happens at its time by the clock of the database."""

    def __init__(self, db: Database, settings: Settings, start_ms: int, end_ms: int, clock: "Clock") -> None:
        self._db = db
        self._settings = settings
        self._start_ms = start_ms
        self._end_ms = end_ms
        self._clock = clock
        self._random = random.Random(SEED)  # noqa: S311  nobody's secret
        self._events: list[tuple[int, int, Event]] = []
        self._keys: dict[str, keys.Issued] = {}
        self._version = 0

    async def run(self) -> str:
        """All of it. Returns a key of the operator's."""
        self._at(0, 7, self._add_models)
        for person in PEOPLE:
            self._at(person.from_day, 8, partial(self._add, person))
            for name, (calls, models) in person.keys.items():
                self._plan_calls(person, name, calls, models)
        self._at(10, 9, self._add_codes)
        self._at(16, 11, partial(self._grant, "support bot", 4000, "second contract"))
        self._at(20, 15, partial(self._revoke, "old notebook"))
        self._at(24, 10, partial(self._grant, "lab", -200, "moved to the other project"))
        self._at(DAYS, 0, self._limit)
        for at_ms, _, event in sorted(self._events, key=itemgetter(0, 1)):
            if at_ms < self._end_ms:
                self._clock.now_ms = at_ms
                await event()
        return self._keys["laptop"].key

    def _at(self, day: int, hour: int, event: Event) -> None:
        at_ms = min(self._start_ms + day * DAY_MS + hour * HOUR_MS, self._end_ms - 1)
        self._events.append((at_ms, len(self._events), event))

    async def _do(self, action: Action[R]) -> R:
        return await perform(self._db, action, by=BY, settings=self._settings)

    async def _add_models(self) -> None:
        for name, url, priority in (
            ("local", "parrot:", 10),
            ("vendor", "https://models.example.org/v1", 20),
        ):
            await self._do(AddChannel(kind="chat", name=name, url=url, priority=priority))
        for model in (LARGE, SMALL):
            await self._do(AddRoute(name=model.name, units=model.units, channel=(model.channel,)))
        self._version = (await config.load(self._db)).version

    async def _add(self, person: Person) -> None:
        operator = person.name == OPERATOR
        await self._do(
            AddAccount(name=person.name, email=person.email, operator=operator, units=person.units)
        )
        for name in person.keys:
            self._keys[name] = await self._do(IssueKey(account=person.name, name=name))

    async def _add_codes(self) -> None:
        made = await self._do(AddCodes(units=100, count=20, expires="60d", memo="spring term"))
        for person, code in zip(("小明", "class 7b"), made.codes, strict=False):
            await self._do(RedeemCode(account=person, code=code))

    async def _grant(self, name: str, units: int, memo: str) -> None:
        await self._do(GrantUnits(name=name, units=units, memo=memo))

    async def _revoke(self, name: str) -> None:
        await self._do(RevokeKey(key=str(self._keys[name].id)))

    async def _limit(self) -> None:
        """At the end, since a cap counts from when it is set."""
        await self._do(SetKeyCap(key=str(self._keys["tablets"].id), cap="1000/week"))
        website = str(self._keys["website"].id)
        await self._do(LimitKey(key=website, rpm="60", concurrent="8", units_per_day="500"))

    def _plan_calls(self, person: Person, key: str, calls: int, models: Sequence[Model]) -> None:
        chosen = self._random
        for day in range(person.from_day + 1, DAYS + 1):
            weekday = datetime.fromtimestamp((self._start_ms + day * DAY_MS) / 1000, UTC).weekday()
            usual = calls * (person.weekend if weekday >= SATURDAY else 1)
            for _ in range(round(chosen.gauss(usual, usual / 4))):
                (hour,) = chosen.choices(range(24), HOURS)
                began = self._start_ms + day * DAY_MS + hour * HOUR_MS + chosen.randrange(HOUR_MS)
                self._plan_call(key, chosen.choice(models), began)

    def _plan_call(self, key: str, model: Model, began_ms: int) -> None:
        chosen = self._random
        took_ms = round(model.typical_ms * math.exp(chosen.gauss(0, 0.4)))
        call_id = (int.from_bytes(first_of(began_ms)) | chosen.getrandbits(62)).to_bytes(16)
        failed = chosen.random() < FAILED_SHARE
        end = End(
            call_id=call_id,
            state=CallState.REFUNDED if failed else CallState.KEPT,
            reason=chosen.choice(FAILURES) if failed else "",
            channel=model.channel,
        )

        async def charge() -> None:
            opened = Charge(
                call_id=call_id,
                key_hash=keys.hash_of(self._keys[key].key),
                scope=model.pays,
                pays=model.pays,
                units=model.units,
                deadline_ms=began_ms + HOUR_MS,
                config_version=self._version,
                request_id=call_id.hex(),
                route=model.name,
            )
            await self._db.commit_batch([], [opened])

        async def finish() -> None:
            await self._db.commit_batch([end], [])

        self._events += [(began_ms, 0, charge), (began_ms + took_ms, 1, finish)]


class Clock:
    """The time of the database."""

    def __init__(self, now_ms: int) -> None:
        self.now_ms = now_ms

    def __call__(self) -> int:
        return self.now_ms


async def fill(settings: Settings) -> str:
    """Makes a database with the month before now. Returns a key of the operator's."""
    now_ms = time.time_ns() // 1_000_000
    start_ms = (now_ms - DAYS * DAY_MS) // DAY_MS * DAY_MS
    clock = Clock(start_ms)
    db = await Sqlite.open(settings.sqlite_file, serving=False, clock=clock)
    try:
        await migrate(db)
        return await Month(db, settings, start_ms, now_ms, clock).run()
    finally:
        await db.close()


def demo(output: Output) -> None:
    """Makes the month unless it is there, and serves it."""
    settings, env, _ = choose_settings(os.environ, DEFAULTS)
    output.title("Myna after a month of use: accounts, keys, prices and calls, made up.")
    key = ""
    if not settings.sqlite_file.exists():
        output.say(f"Writing the month into {settings.data} …")
        with exclusive(settings):
            key = asyncio.run(fill(settings))
    with Service(settings, env) as service:
        ready = f"{service.root_url} (ready in {service.wait_ready():.1f} s)"
        for voice, text in TEXTS if key else ():
            said = {"text": text, "voice_id": voice}
            status, body = exchange("POST", f"{service.root_url}/v1/tts", key, said)
            if status != HTTPStatus.OK:
                raise DemoFailed(f"POST /v1/tts answered {status}: {body.decode(errors='replace')}")
        books = service.command("audit", "--full")
        output.rows(
            ("address", ready),
            ("books", f"{books['checked']['calls']} calls, no breach" if books["ok"] else "breaches!"),
            ("data folder", f"{settings.data}: delete it, and the next run makes the month up to then"),
        )
        if stops_after_tour():
            return
        _invite(service, settings, output)
        keep_running(output, service)


def _invite(service: Service, settings: Settings, output: Output) -> None:
    """A link is printed to a terminal only: other output is stored, and a link is secret."""
    output.title(
        "\nThe back office, as the operator ann. This link sets her password, once, within three days."
    )
    if sys.stdout.isatty():
        output.paste(service.command("account", "invite", OPERATOR)["link"])
    else:
        output.paste(f"MYNA_DATA={settings.data} MYNA_PORT={settings.port} .venv/bin/myna account invite ann")
    output.rows(("look at", "Home, Keys, Usage; as an operator Accounts, Calls, Health"), ("stop", "Ctrl-C"))


if __name__ == "__main__":
    sys.exit(run_demo(demo))

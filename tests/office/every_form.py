"""Every form that changes something, and what it needs to exist."""

import itertools
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pyotp

from tests.farm.node_client import NodeSite
from tests.office.test_records import speak, with_key
from tests.office.test_site import account_page
from tests.rig.calls import Answer
from tests.rig.office import PASSWORD, People, Visitor, text_of
from tests.rig.samples import write_voice
from tests.rig.service import Service

NEW_PASSWORD = "quiet lantern over 9 hills"
CHANNEL = "http://127.0.0.1:9/v1"


@dataclass
class Scene:
    """The site, its operator, and what a form needs to exist."""

    service: Service
    operator: Visitor
    numbers: Iterator[int] = field(default_factory=itertools.count)
    forms: Iterator[int] = field(default_factory=itertools.count)

    def name(self) -> str:
        return f"n{next(self.numbers)}"

    def person(self, **options: Any) -> tuple[Visitor, str]:
        name = self.name()
        return People(self.service).signed_in(name, **options), name

    def account(self) -> tuple[str, str]:
        """An account without a password: its name and its page."""
        name = self.name()
        self.service.cli("account", "add", name)
        return name, account_page(self.operator, name)

    def key(self) -> tuple[Visitor, str, str]:
        visitor, name = self.person()
        made = self.service.cli("key", "issue", name, "--name", "k", "--scope", "chat")
        return visitor, f"/keys/{made['id']}", "k"

    def channel(self) -> str:
        name = self.name()
        self.service.cli("channel", "add", "chat", name, CHANNEL)
        return name

    def node(self) -> str:
        name = self.name()
        self.service.cli("node", "enroll", name)
        return name

    def route(self) -> str:
        name = self.name()
        self.service.cli("route", "add", name, "--units", "1")
        return name


@dataclass
class Sent:
    """A form to send. `changes`: how many entries it adds to the activity log."""

    visitor: Visitor
    path: str
    fields: dict[str, Any] = field(default_factory=dict)
    changes: int = 1
    status: int = 303
    file: tuple[str, str, bytes] | None = None

    def send(self, visitor: Visitor, once: str | None) -> Answer:
        fields = self.fields if once is None else {**self.fields, "once": once}
        if self.file:
            return visitor.upload(self.path, self.file, **fields)
        return visitor.post(self.path, **fields)


def operator_form(path: str, **fields: Any) -> Callable[[Scene], Sent]:
    return lambda scene: Sent(scene.operator, path, fields)


def own_form(path: str, changes: int = 1, **fields: Any) -> Callable[[Scene], Sent]:
    return lambda scene: Sent(scene.person()[0], path, fields, changes)


def of_key(action: str, **fields: Any) -> Callable[[Scene], Sent]:
    def make(scene: Scene) -> Sent:
        visitor, page, _ = scene.key()
        return Sent(visitor, f"{page}/{action}", fields)

    return make


def of_account(action: str, **fields: Any) -> Callable[[Scene], Sent]:
    def make(scene: Scene) -> Sent:
        name, page = scene.account()
        return Sent(scene.operator, f"{page}/{action}", {"typed": name, **fields})

    return make


def named(
    path: str, made: Callable[[Scene], str], changes: int = 1, **fields: Any
) -> Callable[[Scene], Sent]:
    """A form about something of the site, with its name in the fields where they say NAME."""

    def make(scene: Scene) -> Sent:
        name = made(scene)
        typed = {key: name if value is NAME else value for key, value in fields.items()}
        return Sent(scene.operator, path, {"name": name, **typed}, changes)

    return make


NAME = object()


def new_name(scene: Scene) -> str:
    return scene.name()


def reset(scene: Scene) -> Sent:
    _, name = scene.person()
    return Sent(scene.operator, account_page(scene.operator, name) + "/reset")


def second_factor(scene: Scene) -> tuple[Visitor, str, pyotp.TOTP]:
    """A person who has begun a second factor."""
    visitor, name = scene.person()
    begun = visitor.result("/me/second-factor").body.decode()
    return visitor, name, pyotp.TOTP(re.findall(r"<pre id=\"secret\"[^>]*>([A-Z2-7]{32})<", begun)[0])


def confirm_second_factor(scene: Scene) -> Sent:
    visitor, _, totp = second_factor(scene)
    return Sent(visitor, "/me/second-factor/confirm", {"code": totp.now()})


def with_second_factor(scene: Scene) -> tuple[Visitor, str, list[str]]:
    visitor, name, totp = second_factor(scene)
    shown = visitor.result("/me/second-factor/confirm", code=totp.now())
    return visitor, name, re.findall(r"\b(?:[a-z2-9]{4}-){5}[a-z2-9]{4}\b", text_of(shown))


def of_second_factor(path: str) -> Callable[[Scene], Sent]:
    return lambda scene: Sent(with_second_factor(scene)[0], path)


def give_second_factor(scene: Scene) -> Sent:
    _, name, codes = with_second_factor(scene)
    visitor = Visitor(scene.service)
    visitor.post("/sign-in", name=name, password=PASSWORD)
    return Sent(visitor, "/second-factor", {"code": codes[0]}, changes=0)


def sign_in(scene: Scene) -> Sent:
    _, name = scene.person()
    return Sent(Visitor(scene.service), "/sign-in", {"name": name, "password": PASSWORD}, changes=0)


def welcome(scene: Scene) -> Sent:
    name = scene.name()
    link = scene.service.cli("account", "add", name, "--email", f"{name}@example.org")["link"]
    token = link.partition("token=")[2]
    return Sent(Visitor(scene.service), f"/welcome?token={token}", {"token": token, "password": PASSWORD})


def end_session(scene: Scene) -> Sent:
    visitor, name = scene.person()
    Visitor(scene.service).submit("/sign-in", name=name, password=PASSWORD)
    path = re.findall(r'action="/office(/me/sessions/\d+)"', visitor.get("/me").body.decode())[0]
    return Sent(visitor, path)


def delete_records(scene: Scene) -> Sent:
    people, name = People(scene.service), scene.name()
    visitor, key = with_key(people, name)
    record = speak(people, key, "Hello there")
    return Sent(visitor, "/records/delete", {"id": str(record["id"]), "sure": "yes"})


def remove_word(scene: Scene) -> Sent:
    visitor, _ = scene.person()
    visitor.submit("/words", word="行长", reading="hang2zhang3")
    return Sent(visitor, "/words/remove", {"word": "行长"})


def redeem(scene: Scene) -> Sent:
    visitor, _ = scene.person()
    made = scene.service.cli("code", "add", "--units", "5")
    return Sent(visitor, "/ledger", {"code": made[0]["code"]})


def disable_codes(scene: Scene) -> Sent:
    scene.operator.result("/site/codes", units="25", count="1", uses="1")
    html = scene.operator.get("/site/codes").body.decode()
    return Sent(scene.operator, re.findall(r'href="/office(/site/codes/\d+/disable)"', html)[0])


def unlink(scene: Scene) -> Sent:
    visitor, name = scene.person()
    scene.service.cli("account", "oidc", name, "--subject", name)
    return Sent(visitor, "/me/oidc/remove")


def new_voice(scene: Scene) -> Sent:
    visitor, _ = scene.person()
    NodeSite(scene.service).node(clones=["en"])
    sample = write_voice(scene.service.folder / "voice.wav", 4).read_bytes()
    fields = {"name": "Ann", "language": "en", "transcript": "Good morning to you.", "consent": "true"}
    return Sent(visitor, "/voices/new", fields, file=("sample", "voice.wav", sample))


def delete_voice(scene: Scene) -> Sent:
    sent = new_voice(scene)
    voice = sent.send(sent.visitor, None).headers["location"].removeprefix("/office")
    return Sent(sent.visitor, f"{voice}/delete", {"typed": "Ann"})


def of_channel_key(path: str, **fields: Any) -> Callable[[Scene], Sent]:
    def make(scene: Scene) -> Sent:
        name = scene.channel()
        scene.operator.submit("/site/channels/key", name=name, key="secret")
        return Sent(scene.operator, path, {"name": name, **fields})

    return make


def refused(made: Callable[[Scene], Sent], changes: int = 0) -> Callable[[Scene], Sent]:
    """A form that this site must refuse: it has no model to fetch and nothing to blend."""

    def make(scene: Scene) -> Sent:
        sent = made(scene)
        sent.status, sent.changes = 400, changes
        return sent

    return make


def show_voice(scene: Scene) -> Sent:
    scene.service.cli("voice", "hide", VOICE)
    return Sent(scene.operator, f"{V}/show", {"voice_id": VOICE})


C, N, R, V = "/site/channels", "/site/nodes", "/site/routes", "/site/voices"
VOICE = "en-us-female-1"
FORMS: dict[str, Callable[[Scene], Sent]] = {
    "/keys/new": own_form("/keys/new", name="laptop", scope=["chat"]),
    "/keys/{id:number}/rename": of_key("rename", name="other"),
    "/keys/{id:number}/cap": of_key("cap", cap_units="5", cap_period="day"),
    "/keys/{id:number}/limits": of_key("limits", rpm="5"),
    "/keys/{id:number}/roll": of_key("roll", grace="1h"),
    "/keys/{id:number}/revoke": of_key("revoke", typed="k"),
    "/ledger": redeem,
    "/me": own_form("/me", language="en", low_balance="7"),
    "/me/password": own_form("/me/password", password=NEW_PASSWORD),
    "/me/second-factor": own_form("/me/second-factor", changes=0),
    "/me/second-factor/confirm": confirm_second_factor,
    "/me/second-factor/codes": of_second_factor("/me/second-factor/codes"),
    "/me/second-factor/remove": of_second_factor("/me/second-factor/remove"),
    "/me/sessions/others": own_form("/me/sessions/others"),
    "/me/sessions/{id:number}": end_session,
    "/me/oidc/remove": unlink,
    "/records/delete": delete_records,
    "/second-factor": give_second_factor,
    "/sign-in": sign_in,
    "/sign-out": own_form("/sign-out", changes=0),
    "/start": named("/start", new_name, url=CHANNEL, model="m", untested="true"),
    "/start/key": operator_form("/start/key", name="first"),
    "/voices/new": new_voice,
    "/voices/{id}/delete": delete_voice,
    "/welcome": welcome,
    "/words": own_form("/words", word="行长", reading="hang2zhang3"),
    "/words/remove": remove_word,
    "/site/words": operator_form("/site/words", word="Myna", reading="MY-nuh"),
    "/site/words/remove": refused(operator_form("/site/words/remove", word="nothing")),
    "/site/accounts/new": named("/site/accounts/new", new_name, changes=2, units="7"),
    "/site/accounts/{id:number}/grant": of_account("grant", units="41", memo="a gift"),
    "/site/accounts/{id:number}/limits": of_account("limits", rpm="5"),
    "/site/accounts/{id:number}/switch": of_account("switch"),
    "/site/accounts/{id:number}/invite": of_account("invite"),
    "/site/accounts/{id:number}/reset": reset,
    "/site/codes": operator_form("/site/codes", units="25", count="2", uses="1"),
    "/site/codes/{id:number}/disable": disable_codes,
    "/site/settings": operator_form("/site/settings", name="key_rpm", value="1000"),
    f"{C}/new": named(f"{C}/new", new_name, changes=2, kind="chat", url=CHANNEL, key="secret"),
    f"{C}/change": named(f"{C}/change", Scene.channel, url=CHANNEL, model="other"),
    f"{C}/key": named(f"{C}/key", Scene.channel, key="secret"),
    f"{C}/key/remove": of_channel_key(f"{C}/key/remove"),
    f"{C}/remove": named(f"{C}/remove", Scene.channel, typed=NAME),
    f"{C}/test": named(f"{C}/test", Scene.channel),
    f"{C}/move": named(f"{C}/move", Scene.channel, up="true"),
    f"{C}/enable": named(f"{C}/enable", Scene.channel, changes=0),
    f"{C}/disable": named(f"{C}/disable", Scene.channel),
    f"{N}/enroll": named(f"{N}/enroll", new_name),
    f"{N}/drain": named(f"{N}/drain", Scene.node),
    f"{N}/enable": named(f"{N}/enable", Scene.node, changes=0),
    f"{N}/disable": named(f"{N}/disable", Scene.node),
    f"{N}/remove": named(f"{N}/remove", Scene.node, typed=NAME),
    f"{R}/new": named(f"{R}/new", new_name, units="3"),
    f"{R}/change": named(f"{R}/change", Scene.route, units="4"),
    f"{R}/remove": named(f"{R}/remove", Scene.route, typed=NAME),
    f"{V}/listen": lambda scene: Sent(scene.operator, f"{V}/listen", {"voice_id": VOICE}, changes=0),
    f"{V}/move": operator_form(f"{V}/move", voice_id=VOICE, to="down"),
    f"{V}/rename": operator_form(f"{V}/rename", voice_id=VOICE, name="Ann"),
    f"{V}/hide": operator_form(f"{V}/hide", voice_id=VOICE),
    f"{V}/show": show_voice,
    f"{V}/blend": refused(operator_form(f"{V}/blend", voice_id="mixed", recipe="a:1+b:1")),
    f"{V}/blend/delete": refused(operator_form(f"{V}/blend/delete", voice_id="nobody")),
    "/site/models/get": refused(operator_form("/site/models/get", name="nothing")),
    "/site/models/remove": refused(operator_form("/site/models/remove", name="nothing", typed="nothing")),
}
REPEATABLE = {
    *("/sign-in/oidc", "/me/oidc", "/me/oidc/confirm"),
    *("/try", "/try/speech", "/try/reading", "/try/stream", "/try/ended"),
}

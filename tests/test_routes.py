"""The route of a model's name."""

import pytest

from myna.config import SiteSettings
from myna.errors import CommandError, ModelNotFound
from myna.routes import Route, RouteKind, check, check_known, find, listed
from myna.store.queries import routes as store
from myna.store.queries.config import Config
from myna.store.queries.routes import RouteRow
from tests.store.books import Books

SETTINGS = SiteSettings(chat_units=3, tts_units=4, transcription_units=5)
CHAT, SPEECH = RouteKind.CHAT, RouteKind.SPEECH


def site(*names: str, kind: RouteKind = CHAT) -> Config:
    rows = tuple(RouteRow(name=name, kind=kind, units=7, upstream_model="up", intent=0) for name in names)
    return Config(
        version=1,
        settings={},
        channels=(),
        voices=(),
        node_voices=(),
        node_clones=(),
        overrides={},
        blends=(),
        routes=rows,
    )


@pytest.mark.parametrize(
    ("model", "kind", "name", "units"),
    [
        ("svc-chat", RouteKind.CHAT, "svc-chat", 3),
        ("svc-agent", RouteKind.CHAT, "svc-agent", 3),
        ("tts-1", RouteKind.SPEECH, "tts-1", 4),
        ("tts-1-hd", RouteKind.SPEECH, "tts-1", 4),
        ("gpt-4o-mini-tts", RouteKind.SPEECH, "tts-1", 4),
        ("whisper-1", RouteKind.TRANSCRIPTION, "whisper-1", 5),
    ],
)
def test_the_built_in_routes_are_always_there(model: str, kind: RouteKind, name: str, units: int) -> None:
    assert find(site(), SETTINGS, model, kind) == Route(name, kind, units)
    assert find(site("*", kind=kind), SETTINGS, model, kind) == Route(name, kind, units)


@pytest.mark.parametrize(
    ("model", "name"),
    [("gpt-4o", "gpt-4o"), ("gpt-4o-2", "gpt-4*"), ("gpt-4", "gpt-4*"), ("gpt-5", "gpt-*"), ("x", "*")],
)
def test_an_exact_name_comes_before_wildcards_and_the_longest_prefix_counts(model: str, name: str) -> None:
    known = site("*", "gpt-*", "gpt-4*", "gpt-4o")
    found = find(known, SETTINGS, model, CHAT)
    assert (found.name, found.units, found.upstream_model) == (name, 7, "up")


@pytest.mark.parametrize("model", ["", "gpt", "GPT-4", "gpt-*", "*", "x" * 1000])
def test_a_model_without_a_route_is_not_found(model: str) -> None:
    with pytest.raises(ModelNotFound, match="model: there is no model"):
        find(site("gpt-*"), SETTINGS, model, CHAT)


def test_a_name_of_another_kind_is_not_found_even_with_a_wildcard() -> None:
    for known in (site("gpt-4o"), site("gpt-4o", "*")):
        with pytest.raises(ModelNotFound, match="model: there is no model 'gpt-4o' "):
            find(known, SETTINGS, "gpt-4o", SPEECH)
    with pytest.raises(ModelNotFound, match=r"^model: svc-chat is a model for chat; .* one for speech\.$"):
        find(site("*", kind=SPEECH), SETTINGS, "svc-chat", SPEECH)
    with pytest.raises(ModelNotFound, match=r"^model: tts-1-hd is a model for speech; .* one for chat\.$"):
        find(site("gpt-*"), SETTINGS, "tts-1-hd", CHAT)
    with pytest.raises(ModelNotFound):
        find(site("gpt-*"), SETTINGS, "gpt-4o", SPEECH)


def test_the_list_has_built_in_names_and_those_of_the_operator() -> None:
    names = [route.name for route in listed(site("a", "b*"), SETTINGS)]
    assert names == ["svc-chat", "svc-agent", "tts-1", "whisper-1", "a", "b*"]


@pytest.mark.parametrize(
    ("route", "why"),
    [
        (Route("", CHAT, 1), "needs a name"),
        (Route("a b", CHAT, 1), "needs a name"),
        (Route("a*b", CHAT, 1), "needs a name"),
        (Route("a\u3000b", CHAT, 1), "needs a name"),
        (Route("a\x7f", CHAT, 1), "needs a name"),
        (Route("a" * 101, CHAT, 1), "needs a name"),
        (Route("tts-1-hd", SPEECH, 1), "built in"),
        (Route("svc-chat", CHAT, 1), "built in"),
        (Route("a", CHAT, -1), "The units must"),
        (Route("a", CHAT, 1, upstream_model="a\n"), "The model to request"),
        (Route("a", SPEECH, 1, intent=True), "Only chat"),
    ],
)
def test_a_route_that_cannot_be_is_refused(route: Route, why: str) -> None:
    with pytest.raises(CommandError, match=why):
        check(route)


@pytest.mark.parametrize(
    "name", ["a", "*", "gpt-*", "meta-llama/Llama-3.1:free", "通义千问", "a" * 100, "svc-*"]
)
def test_names_of_models_and_wildcards_are_accepted(name: str) -> None:
    check(Route(name, CHAT, 0))


@pytest.mark.anyio
async def test_a_key_can_only_be_limited_to_routes_that_exist(books: Books) -> None:
    route = RouteRow(name="gpt-*", kind="chat", units=1, upstream_model="", intent=0)
    await books.db.transaction(lambda connection: store.put(connection, route))
    await check_known(books.db, ("gpt-*", "svc-chat"))
    with pytest.raises(CommandError, match="no route 'gpt-4'; there are svc-chat"):
        await check_known(books.db, ("gpt-4",))

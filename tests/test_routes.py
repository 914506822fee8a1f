"""The route of a model's name."""

import json
import logging
from collections.abc import Iterator

import pytest
from prometheus_client import REGISTRY

from myna.channels.channels import Channel
from myna.channels.circuits import FAILURES_MAX, OPERATOR, PROBE_EVERY_S, CircuitChange, Circuits
from myna.channels.routes import Route, RouteKind, check, check_known, find, listed
from myna.config import SiteSettings
from myna.errors import CommandError, ModelNotFound
from myna.gateway.trial import likely_cause, wrong_url
from myna.http.client import HttpClient
from myna.store.queries import config as store
from myna.store.queries.config import Config
from tests.rig.http_server import Exchange, LoopbackServer
from tests.rig.waiting import Clock
from tests.store.books import Books
from tests.test_channels import configuration

SETTINGS = SiteSettings(chat_units=3, tts_units=4, transcription_units=5)
CHAT, SPEECH = RouteKind.CHAT, RouteKind.SPEECH


def site(*names: str, kind: RouteKind = CHAT) -> Config:
    rows = tuple(Route(name, kind, 7, "up") for name in names)
    return configuration(routes=rows)


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
        (Route("a", CHAT, 1, upstream_model="a\n"), "The name of a model"),
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


async def test_a_key_can_only_be_limited_to_routes_that_exist(books: Books) -> None:
    route = Route("gpt-*", RouteKind.CHAT, 1)
    await books.db.transaction(lambda connection: store.put_route(connection, route))
    await check_known(books.db, ("gpt-*", "svc-chat"))
    with pytest.raises(CommandError, match="no route 'gpt-4'; there are svc-chat"):
        await check_known(books.db, ("gpt-4",))


KEY = "a-key-of-the-operators"
MODELS = ["llama3.2:latest", "qwen3", *(f"model-{number}" for number in range(200))]


class _Server(LoopbackServer):
    """Lists its models below /v1 to those who have the key."""

    def answer(self, exchange: Exchange) -> None:
        status, body = 200, {"object": "list", "data": [{"id": name} for name in MODELS]}
        if exchange.path != "/v1/models":
            status, body = 404, {"detail": "Not Found"}
        elif exchange.headers["Authorization"] != f"Bearer {KEY}":
            said = f"Incorrect API key provided: {exchange.headers['Authorization']}.\nSee our page."
            status, body = 401, {"error": {"message": said, "type": "invalid_request_error"}}
        exchange.send(status, json.dumps(body).encode())


@pytest.fixture(scope="module")
def root() -> Iterator[str]:
    with _Server() as server:
        yield server.root


async def cause(url: str, model: str = "qwen3", key: str = KEY, *, refused: bool = False) -> str:
    client = HttpClient(connections_max=1)
    try:
        channel = Channel(kind="chat", name="up", url=url, model=model, key=key)
        return str(await likely_cause(client, channel, refused=refused) or "")
    finally:
        await client.close()


@pytest.mark.parametrize("model", ["qwen3", "model-199", "llama3.2", "llama3.2:latest", ""])
async def test_a_channel_without_a_mistake_has_no_cause(root: str, model: str) -> None:
    assert await cause(f"{root}/v1", model) == "" == await cause(f"{root}/v1/", model)


@pytest.mark.parametrize("endpoint", ["/chat/completions", "/models", "/audio/speech", "/embeddings"])
async def test_an_endpoint_in_the_base_url_is_named(root: str, endpoint: str) -> None:
    said = await cause(f"{root}/v1{endpoint}/")
    assert (
        said
        == f"Its base URL ends in an endpoint, {endpoint}: use {root}/v1."
        == str(wrong_url(f"{root}/v1{endpoint}"))
    )
    assert wrong_url(f"{root}/models") is None


async def test_a_missing_v1_is_named(root: str) -> None:
    for key in (KEY, ""):
        assert await cause(root, key=key) == f"Its base URL lacks /v1: use {root}/v1."
    assert await cause(f"{root}/elsewhere") == await cause(f"{root}/v2", refused=True) == ""
    assert (
        await cause(f"{root}/elsewhere", refused=True) == f"Its base URL lacks /v1: use {root}/elsewhere/v1."
    )


async def test_a_refused_key_is_named_with_the_servers_sentence_and_without_the_key(root: str) -> None:
    said = await cause(f"{root}/v1", key="wrong-key")
    assert said == "Its server refuses the key: Incorrect API key provided: Bearer ***. See our page."
    assert (await cause(f"{root}/v1", key="")).startswith("Its server asks for a key")


async def test_a_model_that_is_not_listed_is_named_with_those_that_are(root: str) -> None:
    said = await cause(f"{root}/v1", "qwen4")
    assert said.startswith("Its server does not list the model 'qwen4'; it lists llama3.2:latest, qwen3, ")
    assert said.endswith("model-7, … (192).")
    assert "llama3.2:latest" in await cause(f"{root}/v1", "", refused=True)


async def test_a_server_that_does_not_answer_has_no_cause() -> None:
    assert await cause("http://127.0.0.1:1/v1") == await cause("parrot:") == ""


COOLDOWN_S = 30.0
ALICE = 7


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def circuits(clock: Clock) -> Circuits:
    return Circuits(COOLDOWN_S, clock)


def fail(circuits: Circuits, name: str, accounts: int = FAILURES_MAX) -> None:
    for account_id in range(1, accounts + 1):
        circuits.failed(name, "why", account_id, "chat")


def fail_for_alice(circuits: Circuits, name: str, times: int = FAILURES_MAX) -> None:
    for _ in range(times):
        circuits.failed(name, "why", ALICE, "embeddings")


def test_a_circuit_opens_after_failures_of_so_many_accounts_in_a_row(circuits: Circuits) -> None:
    fail(circuits, "a", FAILURES_MAX - 1)
    assert not circuits.open("a")
    circuits.failed("a", "why", FAILURES_MAX)
    assert circuits.open("a") and not circuits.open("b")


def test_a_success_resets_the_failures(circuits: Circuits) -> None:
    fail(circuits, "a", FAILURES_MAX - 1)
    circuits.succeeded("a")
    fail(circuits, "a", FAILURES_MAX - 1)
    assert not circuits.open("a") and not circuits.to_probe()


def test_one_account_opens_no_circuit_but_has_the_channel_probed(circuits: Circuits) -> None:
    fail_for_alice(circuits, "a", FAILURES_MAX - 1)
    assert circuits.to_probe() == {}
    fail_for_alice(circuits, "a", 20 * FAILURES_MAX)
    assert not circuits.open("a")
    assert circuits.to_probe() == {"a": "embeddings"}
    circuits.failed("a", "the probe failed", OPERATOR)
    assert circuits.open("a")


def test_a_probe_that_succeeds_clears_the_channel(circuits: Circuits) -> None:
    fail_for_alice(circuits, "a")
    assert circuits.to_probe() == {"a": "embeddings"}
    circuits.succeeded("a")
    fail_for_alice(circuits, "a", FAILURES_MAX - 1)
    assert circuits.to_probe() == {}


def test_a_channel_is_not_probed_again_at_once(circuits: Circuits, clock: Clock) -> None:
    """Such as one whose probe found no place."""
    fail_for_alice(circuits, "a")
    assert circuits.to_probe()
    clock.now += PROBE_EVERY_S - 0.1
    assert not circuits.to_probe()
    clock.now += 0.2
    assert circuits.to_probe()


def test_a_failing_request_of_the_operators_is_one_among_others(circuits: Circuits) -> None:
    """Such as a test with a wrong model. As many as open a circuit are proof."""
    for _ in range(FAILURES_MAX - 1):
        circuits.failed("a", "why", OPERATOR)
        assert not circuits.open("a")
    circuits.failed("a", "why", OPERATOR)
    assert circuits.open("a")


def test_after_a_cooldown_a_failure_is_probed_and_a_success_closes(circuits: Circuits, clock: Clock) -> None:
    """One account can't keep a circuit open either."""
    fail(circuits, "a")
    clock.now += COOLDOWN_S - 0.01
    assert circuits.open("a")
    clock.now += 0.02
    assert not circuits.open("a") and circuits.to_probe() == {}
    fail_for_alice(circuits, "a", 1)
    assert not circuits.open("a") and circuits.to_probe() == {"a": "embeddings"}
    circuits.failed("a", "the probe failed", OPERATOR)
    assert circuits.open("a")
    clock.now += COOLDOWN_S
    circuits.succeeded("a")
    fail(circuits, "a", FAILURES_MAX - 1)
    assert not circuits.open("a")


def test_opening_and_closing_of_a_circuit_is_logged_counted_and_notified(
    clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    changes: list[CircuitChange] = []
    circuits = Circuits(COOLDOWN_S, clock, changes.append)
    fail(circuits, "logged")
    circuits.failed("logged", "one that was under way", ALICE)
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "circuit of channel 'logged' is open for 30 s: why" in caplog.text
    labels = {"channel": "logged"}
    assert REGISTRY.get_sample_value("myna_channel_circuit_open", labels) == 1
    assert REGISTRY.get_sample_value("myna_channel_circuit_opened_total", labels) == 1

    clock.now += COOLDOWN_S
    circuits.succeeded("logged")
    circuits.succeeded("logged")
    assert [record.levelname for record in caplog.records] == ["WARNING", "INFO"]
    assert REGISTRY.get_sample_value("myna_channel_circuit_open", labels) == 0
    assert changes == [CircuitChange("logged", COOLDOWN_S, "why"), CircuitChange("logged", 0.0, "")]

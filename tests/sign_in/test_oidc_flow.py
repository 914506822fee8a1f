"""The flow with a provider over a socket: attempts, metadata, keys, and what the provider does wrong."""

import asyncio
from typing import Any

import msgspec
import pytest

from myna.accounts import throttle
from myna.accounts.sign_in.oidc import flow, provider
from myna.accounts.sign_in.oidc.flow import Finished, Oidc, Purpose
from myna.accounts.sign_in.oidc.provider import Failure, OidcRefused
from myna.http.client import ClientResponse, HttpClient
from myna.store.queries.sign_in import ATTEMPT_LIFE_MS, AttemptRow
from tests.rig.oidc_provider import DROP, WELL_KNOWN, Plan, key_of, public
from tests.sign_in.conftest import CLIENT, COOKIE, OidcSite, at_once, failure_of
from tests.store.fixtures import each_database

TOKEN_PATH, KEYS_PATH = "/realm/token", "/realm/keys"
ELSEWHERE = "https://provider.example"


@each_database
async def test_of_twenty_uses_of_an_answer_one_is_accepted(site: OidcSite) -> None:
    answer = await site.answer()
    done, failed = await at_once(site.finish(answer) for _ in range(20))
    assert [one.claims.sub for one in done] == ["person-1"]
    assert {one.failure for one in failed if isinstance(one, OidcRefused)} == {Failure.EXPIRED}
    assert len(failed) == 19
    assert site.provider.asked.count(TOKEN_PATH) == 1


async def test_an_answer_is_of_use_to_the_browser_that_began(site: OidcSite) -> None:
    answer = await site.answer()
    assert await failure_of(site.finish(answer, COOKIE.replace("b", "c"))) is Failure.EXPIRED
    assert await failure_of(site.finish(answer, "")) is Failure.EXPIRED
    assert (await site.finish(answer)).claims.sub == "person-1"


async def test_an_attempt_expires_after_ten_minutes(site: OidcSite) -> None:
    answer = await site.answer()
    await site.books.sql("UPDATE oidc_attempts SET created_at = created_at - $1", ATTEMPT_LIFE_MS)
    assert await failure_of(site.finish(answer)) is Failure.EXPIRED


@each_database
async def test_a_network_has_a_limit_of_attempts(site: OidcSite, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flow, "OF_NETWORK_MAX", 2)
    first = await site.answer()
    for _ in range(2):
        await site.begin()
    assert await site.books.sql("SELECT count(*) FROM oidc_attempts") == [(2,)]
    await site.oidc.begin(
        site.books.db, Purpose.SIGN_IN, browser=COOKIE, session_id=0, target="", address="203.0.113.9"
    )
    assert await site.books.sql("SELECT count(*) FROM oidc_attempts") == [(3,)]
    assert await failure_of(site.finish(first)) is Failure.EXPIRED


async def test_an_address_that_begins_too_often_is_refused_before_a_write(
    site: OidcSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(throttle, "PER_S", 1e-9)
    for _ in range(throttle.BURST_MAX):
        await site.begin()
    assert await failure_of(site.begin()) is Failure.TOO_MANY
    assert await site.books.sql("SELECT count(*) FROM oidc_attempts") == [(throttle.BURST_MAX,)]


async def test_an_unknown_state_is_refused(site: OidcSite) -> None:
    answer = await site.answer()
    for state in ("", "mynaoidc_" + "0" * 64, "\ud800", "x" * 100_000):
        assert await failure_of(site.finish(msgspec.structs.replace(answer, state=state))) is Failure.EXPIRED
    assert TOKEN_PATH not in site.provider.asked


@pytest.mark.parametrize("iss", [DROP, "https://other.example", ""])
async def test_an_answer_that_names_another_issuer_or_none_is_refused(site: OidcSite, iss: object) -> None:
    """RFC 9207: else a code of one provider could be sent to another one."""
    site.provider.plan = Plan(callback={"iss": iss})
    assert await failure_of(site.finish(await site.answer())) is Failure.NOT_VALID
    assert TOKEN_PATH not in site.provider.asked


@pytest.mark.parametrize(
    ("callback", "failure"),
    [
        ({"code": DROP, "error": "access_denied"}, Failure.CANCELLED),
        ({"error": "server_error"}, Failure.CANCELLED),
        ({"code": DROP}, Failure.NOT_VALID),
        ({"code": "x" * 5000}, Failure.NOT_VALID),
    ],
)
async def test_an_answer_without_a_code_uses_the_attempt(
    site: OidcSite, callback: dict[str, object], failure: Failure
) -> None:
    site.provider.plan = Plan(callback=callback)
    answer = await site.answer()
    assert await failure_of(site.finish(answer)) is failure
    assert await failure_of(site.finish(answer)) is Failure.EXPIRED


@pytest.mark.parametrize(
    "metadata",
    [
        {"issuer": "https://other.example"},
        {"token_endpoint": "http://192.0.2.1/token"},
        {"jwks_uri": "file:///etc/passwd"},
        {"authorization_endpoint": "javascript:alert(1)"},
        {"authorization_endpoint": "https://me:secret@provider.example/authorize"},
        {"code_challenge_methods_supported": ["plain"]},
        {"jwks_uri": DROP},
        {"token_endpoint": 7},
    ],
    ids=lambda metadata: next(iter(metadata)),
)
async def test_metadata_that_is_wrong_is_not_used(site: OidcSite, metadata: dict[str, object]) -> None:
    site.provider.plan = Plan(metadata=metadata)
    assert await failure_of(site.begin()) is Failure.PROVIDER


class Elsewhere:
    """An HTTP client whose every answer is this metadata."""

    def __init__(self, **metadata: str) -> None:
        self._body = msgspec.json.encode({"issuer": ELSEWHERE, **metadata})

    async def request(self, *_: object, **__: object) -> ClientResponse:
        return ClientResponse(200, (), self._body)


@pytest.mark.parametrize(
    ("token_endpoint", "may_be_asked"),
    [("https://login.provider.example/token?tenant=1", True), ("http://127.0.0.1/token", False)],
)
async def test_a_provider_elsewhere_is_asked_over_https_only(token_endpoint: str, may_be_asked: bool) -> None:
    others = {"authorization_endpoint": f"{ELSEWHERE}/authorize", "jwks_uri": f"{ELSEWHERE}/keys"}
    client = msgspec.structs.replace(CLIENT, issuer=ELSEWHERE)
    answers: Any = Elsewhere(token_endpoint=token_endpoint, **others)
    asks = provider.Provider(client, answers)
    if may_be_asked:
        assert (await asks.metadata()).token_endpoint == token_endpoint
    else:
        with pytest.raises(OidcRefused, match="not an https URL"):
            await asks.metadata()


@pytest.mark.parametrize(
    ("path", "fault"),
    [
        *((KEYS_PATH, fault) for fault in ("500", "redirect", "not JSON", "too large", "slow")),
        (WELL_KNOWN, "500"),
        (TOKEN_PATH, "500"),
    ],
)
async def test_a_provider_that_fails_opens_no_session(
    site: OidcSite, path: str, fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = site.provider.plan
    if fault == "slow":
        monkeypatch.setattr(provider, "DEADLINE_S", 0.2)
        plan.hanging = {path}
    elif fault in ("500", "redirect"):
        plan.statuses = {path: 500 if fault == "500" else 302}
    else:
        plan.bodies = {path: b"<html>" if fault == "not JSON" else b" " * (provider.ANSWER_MAX_BYTES + 1)}
    assert await failure_of(site.whole()) is Failure.PROVIDER


async def test_a_code_that_the_provider_refuses_is_the_persons_to_repeat(site: OidcSite) -> None:
    plan = site.provider.plan
    plan.statuses, plan.bodies = {TOKEN_PATH: 400}, {TOKEN_PATH: b'{"error": "invalid_grant"}'}
    with pytest.raises(OidcRefused, match="400 invalid_grant") as refused:
        await site.whole()
    assert refused.value.failure is Failure.EXPIRED
    plan.bodies = {TOKEN_PATH: b'{"error": "invalid_client"}'}
    assert await failure_of(site.whole()) is Failure.PROVIDER


async def test_a_provider_that_cannot_be_reached_is_asked_again_after_a_while(
    site: OidcSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    site.provider.plan = Plan(statuses={WELL_KNOWN: 500})
    for _ in range(3):
        with pytest.raises(OidcRefused):
            await site.begin()
    assert site.provider.asked == [WELL_KNOWN]
    site.provider.plan = Plan()
    monkeypatch.setattr(provider, "FAILED_S", 0)
    assert (await site.whole()).claims.sub == "person-1"


async def test_a_wrong_client_secret_is_named_in_the_detail_without_the_secret(
    site: OidcSite, http_client: HttpClient
) -> None:
    answer = await site.answer()
    wrong = msgspec.structs.replace(site.client, secret="another secret")
    with pytest.raises(OidcRefused) as refused:
        await Oidc(wrong, http_client).finish(site.books.db, answer, COOKIE)
    assert str(refused.value) == "the token endpoint answered 401 invalid_client"


@pytest.mark.parametrize("kid", ["RS256-1", "RS256-2"], ids=["the same id", "a new id"])
async def test_a_new_key_is_fetched_and_unknown_ones_do_not_flood_the_provider(
    site: OidcSite, monkeypatch: pytest.MonkeyPatch, kid: str
) -> None:
    await site.whole()
    monkeypatch.setattr(provider, "AGAIN_S", 0)
    new = key_of("RS256", 2)
    site.provider.plan = Plan(key=new, header={"kid": kid}, published=[public(new, "RS256") | {"kid": kid}])
    assert (await site.whole()).claims.sub == "person-1"
    assert site.provider.asked.count(KEYS_PATH) == 2
    monkeypatch.undo()
    unknown = key_of("RS256", 3)
    site.provider.plan = Plan(key=unknown, header={"kid": unknown.kid}, published=[public(new, "RS256")])
    for _ in range(3):
        with pytest.raises(OidcRefused):
            await site.whole()
    assert site.provider.asked.count(KEYS_PATH) == 2


async def test_known_keys_serve_while_newer_ones_cannot_be_fetched(
    site: OidcSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    await site.whole()
    monkeypatch.setattr(provider, "AGAIN_S", 0)
    site.provider.plan = Plan(key=key_of("RS256", 2), statuses={KEYS_PATH: 500})
    assert await failure_of(site.whole()) is Failure.PROVIDER
    site.provider.plan = Plan(statuses={KEYS_PATH: 500})
    assert (await site.whole()).claims.sub == "person-1"


async def test_a_public_client_sends_its_id_and_no_secret(site: OidcSite, http_client: HttpClient) -> None:
    client = msgspec.structs.replace(site.client, secret="")
    answer = await site.answer()
    with pytest.raises(OidcRefused, match="401 invalid_client"):
        await Oidc(client, http_client).finish(site.books.db, answer, COOKIE)


async def test_nothing_that_is_shown_of_an_attempt_has_a_secret(site: OidcSite) -> None:
    answer = await site.answer()
    (stored,) = await site.books.sql("SELECT nonce, verifier FROM oidc_attempts")
    row = AttemptRow(*stored, purpose=Purpose.SIGN_IN, session_id=0, target="", created_at=0)
    finished = await site.finish(answer)
    shown = " ".join(map(repr, [row, answer, finished, site.client]))
    secrets = [answer.state, row.nonce, row.verifier, answer.code, site.client.secret]
    assert not [secret for secret in secrets if secret in shown]


async def test_a_provider_that_does_not_announce_iss_need_not_send_it(site: OidcSite) -> None:
    site.provider.plan = Plan(
        metadata={"authorization_response_iss_parameter_supported": DROP}, callback={"iss": DROP}
    )
    assert (await site.whole()).claims.sub == "person-1"


async def test_sign_ins_at_once_and_later_ones_ask_for_metadata_and_keys_once(site: OidcSite) -> None:
    answers = await asyncio.gather(*(site.answer() for _ in range(5)))
    done: list[Finished] = await asyncio.gather(*(site.finish(one) for one in answers))
    assert len(done) == 5
    await site.whole()
    assert site.provider.asked.count(WELL_KNOWN) == 1
    assert site.provider.asked.count(KEYS_PATH) == 1

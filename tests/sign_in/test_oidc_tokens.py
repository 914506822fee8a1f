"""Each check of an ID token: without it a wrong token would sign a person in."""

import base64
import hashlib
import hmac
import json
from collections.abc import Callable
from typing import Any

import pytest
from joserfc import jwk

from myna.accounts.sign_in.oidc.flow import Purpose
from myna.accounts.sign_in.oidc.provider import Failure
from tests.rig.oidc_provider import CLIENT_ID, DROP, Key, Plan, forged, key_of, public, signed
from tests.sign_in.conftest import OidcSite, failure_of, seconds_ago


def claims(**changes: Any) -> Plan:
    return Plan(claims=changes)


def with_hmac(header: dict[str, Any], payload: bytes, key: Key) -> str:
    """Signed with what everyone can know: the public key as the secret of HS256."""
    secret = json.dumps(public(key, "RS256")).encode()
    unsigned = forged(header, payload, b"").rpartition(".")[0]
    return forged(header, payload, hmac.digest(secret, unsigned.encode(), hashlib.sha256))


def unsigned(header: dict[str, Any], payload: bytes, key: Key) -> str:
    return forged(header, payload, b"")


def damaged(header: dict[str, Any], payload: bytes, key: Key) -> str:
    """The signature of other claims."""
    signature = signed(header, payload + b" ", key).rpartition(".")[2]
    return f"{signed(header, payload, key).rpartition('.')[0]}.{signature}"


def too_long(header: dict[str, Any], payload: bytes, key: Key) -> str:
    return signed(header, json.dumps({**json.loads(payload), "more": "x" * 20_000}).encode(), key)


def short_key() -> Plan:
    with pytest.warns(UserWarning, match="2048"):
        key = jwk.RSAKey.generate_key(1024, {"kid": "RS256-1"})
    return Plan(key=key, published=[public(key, "RS256")])


def two_keys_without_an_id() -> Plan:
    keys = [public(key_of("RS256", number), "RS256") for number in (1, 2)]
    return Plan(header={"kid": DROP}, published=keys)


def damaged_keys() -> list[dict[str, Any]]:
    key = public(key_of("RS256"), "RS256")
    return [key | {"n": "%"}, key | {"n": ""}, key | {"e": "AA"}, {n: key[n] for n in key if n != "e"}]


WRONG: dict[str, Callable[[], Plan]] = {
    "another issuer": lambda: claims(iss="https://other.example"),
    "another client": lambda: claims(aud="other"),
    "other clients": lambda: claims(aud=["other", "third"]),
    "several clients and no party": lambda: claims(aud=[CLIENT_ID, "other"]),
    "several clients and another party": lambda: claims(aud=[CLIENT_ID, "other"], azp="other"),
    "another party": lambda: claims(azp="other"),
    "another nonce": lambda: claims(nonce="other"),
    "no nonce": lambda: claims(nonce=DROP),
    "expired": lambda: claims(exp=seconds_ago(120)),
    "no expiry": lambda: claims(exp=DROP),
    "issued long ago": lambda: claims(iat=seconds_ago(3600)),
    "issued in the future": lambda: claims(iat=seconds_ago(-300), exp=seconds_ago(-900)),
    "not valid yet": lambda: claims(nbf=seconds_ago(-300)),
    "no subject": lambda: claims(sub=DROP),
    "an empty subject": lambda: claims(sub=""),
    "a long subject": lambda: claims(sub="x" * 256),
    "a subject beyond ASCII": lambda: claims(sub="é"),
    "a subject that is a number": lambda: claims(sub=7),
    "no object": lambda: Plan(sign=lambda header, _, key: signed(header, b"[]", key)),
    "no algorithm": lambda: Plan(header={"alg": "none"}, sign=unsigned),
    "a shared secret": lambda: Plan(header={"alg": "HS256"}, sign=with_hmac),
    "an algorithm off the list": lambda: Plan(
        header={"alg": "RS384"}, published=[public(key_of("RS256"), "RS384")]
    ),
    "another key": lambda: Plan(key=key_of("RS256", 2)),
    "an unknown key of a known kind": lambda: Plan(header={"kid": "RS256-7"}),
    "an unknown key": lambda: Plan(key=key_of("RS256", 2), header={"kid": "RS256-2"}),
    "a damaged signature": lambda: Plan(sign=damaged),
    "no signature": lambda: Plan(sign=unsigned),
    "two parts": lambda: Plan(sign=lambda *given: signed(*given).rpartition(".")[0]),
    "too long": lambda: Plan(sign=too_long),
    "a critical header": lambda: Plan(header={"crit": ["b64"], "b64": True}),
    "a short key": short_key,
    "a key for enciphering": lambda: Plan(published=[public(key_of("RS256"), "RS256", use="enc")]),
    "a key of another algorithm": lambda: Plan(published=[public(key_of("RS256"), "PS256")]),
    "two keys without an id": two_keys_without_an_id,
    "damaged keys alone": lambda: Plan(published=damaged_keys()),
}


@pytest.mark.parametrize("algorithm", ["RS256", "PS256", "ES256", "EdDSA"])
async def test_a_token_is_accepted_with_each_algorithm(site: OidcSite, algorithm: str) -> None:
    site.provider.algorithm = algorithm
    finished = await site.whole()
    assert finished.claims.sub == "person-1"
    assert finished.purpose is Purpose.SIGN_IN


@pytest.mark.parametrize("wrong", WRONG)
async def test_a_token_that_fails_a_check_is_refused(site: OidcSite, wrong: str) -> None:
    site.provider.plan = WRONG[wrong]()
    assert await failure_of(site.whole()) is Failure.NOT_VALID
    assert site.provider.sent, "the token was not sent"


@pytest.mark.parametrize(
    "plan",
    [
        lambda: claims(aud=[CLIENT_ID]),
        lambda: claims(aud=[CLIENT_ID, "other"], azp=CLIENT_ID),
        lambda: claims(exp=seconds_ago(-10), iat=seconds_ago(-30)),
        lambda: Plan(header={"kid": DROP}, published=[public(key_of("RS256"), "RS256")]),
        lambda: claims(exp=seconds_ago(50), iat=seconds_ago(-50), nbf=seconds_ago(-50)),
        lambda: Plan(header={"kid": DROP}, published=[*damaged_keys(), public(key_of("RS256"), "RS256")]),
        lambda: Plan(published=[*damaged_keys(), public(key_of("RS256"), "RS256")]),
        lambda: Plan(published=["odd", {"kty": 5}, {}, public(key_of("RS256"), "RS256")]),
    ],
    ids=[
        *("a list", "several clients", "a clock that differs", "one key without an id"),
        *("a clock that differs by almost a minute", "damaged keys without an id"),
        *("damaged keys with the same id", "odd keys"),
    ],
)
async def test_a_token_is_accepted_in_all_its_forms(site: OidcSite, plan: Callable[[], Plan]) -> None:
    site.provider.plan = plan()
    assert (await site.whole()).claims.sub == "person-1"


@pytest.mark.parametrize(
    ("changes", "email"),
    [
        ({}, "person-1@example.org"),
        ({"email_verified": False}, ""),
        ({"email_verified": DROP}, ""),
        ({"email_verified": "true"}, "person-1@example.org"),
        ({"email_verified": "false"}, ""),
        ({"email_verified": 1}, ""),
        ({"email": ["person-1@example.org"]}, ""),
    ],
)
async def test_only_a_verified_address_counts(site: OidcSite, changes: dict[str, Any], email: str) -> None:
    site.provider.plan = claims(**changes)
    assert (await site.whole()).claims.verified_email == email


@pytest.mark.parametrize("auth_time", [DROP, 0, "now"])
async def test_a_confirmation_needs_a_newly_authenticated_person(site: OidcSite, auth_time: object) -> None:
    assert (await site.whole(Purpose.CONFIRM)).purpose is Purpose.CONFIRM
    site.provider.plan = claims(auth_time=auth_time)
    assert await failure_of(site.whole(Purpose.CONFIRM)) is Failure.NOT_VALID


async def test_the_verifier_is_sent_only_with_the_code(site: OidcSite) -> None:
    """PKCE: the address has the hash of the verifier, and the provider checks it."""
    url = await site.begin()
    ((verifier,),) = await site.books.sql("SELECT verifier FROM oidc_attempts")
    challenge = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=").decode()
    assert f"code_challenge={challenge}" in url and verifier not in url

"""Unknown API keys are limited per address; keys that are in use are not affected."""

import secrets
from collections.abc import Iterator
from typing import Any

import pytest

from myna.accounts.throttle import ADDRESSES_MAX, BURST_MAX, KEYS_MAX, KeyThrottle
from myna.errors import RateLimited
from myna.wire.farm import PREFIX, PROTOCOL, PROTOCOL_HEADER
from tests.rig.calls import Answer, call
from tests.rig.service import Key, RunningService, Service
from tests.rig.waiting import Clock

ATTACKED = "203.0.113.7"
OTHER = "198.51.100.9"
GOOD = b"a good key"
WITHOUT_REFILL = (
    "-c",
    "from myna.accounts import throttle\nthrottle.PER_S = 1e-9\nfrom myna.cli import main; main(['serve'])",
)
CHAT = {"model": "svc-chat", "messages": [{"role": "user", "content": "hello"}]}


def fail(throttle: KeyThrottle, address: str = ATTACKED, times: int = 1) -> None:
    for _ in range(times):
        throttle.begin(address, secrets.token_bytes(32)).failed()


def wait_s(throttle: KeyThrottle, address: str = ATTACKED, key_hash: bytes = b"a new key") -> int:
    """The seconds until this key may be tried; 0 if it may now."""
    try:
        throttle.begin(address, key_hash)
    except RateLimited as refused:
        return int(refused.headers["Retry-After"])
    return 0


def test_a_failure_is_forgiven_after_a_second() -> None:
    clock = Clock()
    throttle = KeyThrottle(clock)
    fail(throttle, times=BURST_MAX)
    assert wait_s(throttle) == 1
    clock.now += 0.9
    assert wait_s(throttle) == 1
    clock.now += 0.1
    fail(throttle)
    assert wait_s(throttle) == 1
    clock.now += 10**6
    fail(throttle, times=BURST_MAX)
    assert wait_s(throttle) == 1


def test_a_key_in_use_passes_and_others_wait() -> None:
    throttle = KeyThrottle(Clock())
    throttle.begin(ATTACKED, GOOD).verified()
    fail(throttle, times=BURST_MAX)
    assert wait_s(throttle, key_hash=GOOD) == 0
    assert wait_s(throttle) == 1
    assert wait_s(throttle, OTHER) == 0


@pytest.mark.parametrize(
    ("failing", "refused", "free"),
    [
        ("2001:db8:1:2::1", "2001:db8:1:2:ffff::9", "2001:db8:1:3::1"),
        ("::ffff:203.0.113.7", "203.0.113.7", "203.0.113.8"),
    ],
)
def test_a_client_has_one_address(failing: str, refused: str, free: str) -> None:
    throttle = KeyThrottle(Clock())
    fail(throttle, failing, BURST_MAX)
    assert wait_s(throttle, refused) == 1
    assert wait_s(throttle, free) == 0


def test_the_oldest_addresses_and_keys_are_forgotten() -> None:
    throttle = KeyThrottle(Clock())
    throttle.verified(GOOD)
    fail(throttle, ATTACKED, BURST_MAX)
    fail(throttle, OTHER, BURST_MAX)
    for number in range(ADDRESSES_MAX - 1):
        fail(throttle, f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}")
    assert wait_s(throttle, ATTACKED) == 0
    assert wait_s(throttle, OTHER) == 1
    for number in range(KEYS_MAX - 1):
        throttle.verified(b"%d" % number)
    assert wait_s(throttle, OTHER, GOOD) == 0
    throttle.verified(b"one more")
    assert wait_s(throttle, OTHER, GOOD) == 1


def ask(service: Service, plain: str, client: str, *, chat: bool = False) -> Answer:
    """GET /me, or a chat, as the proxy of this client sends it."""
    path, data = ("/chat/completions", CHAT) if chat else ("/me", None)
    headers = {"x-forwarded-for": client}
    return call("POST" if chat else "GET", service.base_url + path, key=plain, data=data, headers=headers)


def unknown() -> str:
    return "myna_" + secrets.token_hex(20)


@pytest.fixture(scope="module")
def attacked(running_service: RunningService) -> Iterator[Service]:
    """A site behind a proxy, whose throttle forgives no failure: each test has an address of its own."""
    env = {"MYNA_TRUSTED_PROXIES": "127.0.0.1"}
    with running_service(env=env, program=WITHOUT_REFILL, forks=None) as service:
        yield service


@pytest.fixture
def client() -> str:
    """An address that no other test uses."""
    return f"203.0.{secrets.randbelow(256)}.{secrets.randbelow(256)}"


def exhaust(service: Service, address: str) -> None:
    """Sends unknown keys, as GET and POST, until the address is refused."""
    statuses = [
        ask(service, unknown(), address, chat=bool(number % 2)).status for number in range(BURST_MAX + 2)
    ]
    assert statuses == [401] * BURST_MAX + [429] * 2


def used(service: Service, address: str, *, chat: bool) -> Key:
    """A key that the process has verified, by a query or by a charge."""
    key = service.account().key()
    assert ask(service, key.plain, address, chat=chat).status == 200
    return key


def test_unknown_keys_exhaust_their_address_and_no_key_in_use(attacked: Service, client: str) -> None:
    queried, charged = used(attacked, client, chat=False), used(attacked, client, chat=True)
    new = attacked.account().key()
    exhaust(attacked, client)
    assert ask(attacked, unknown(), OTHER).status == 401
    for key in (queried, charged):
        for chat in (False, True):
            assert ask(attacked, key.plain, client, chat=chat).status == 200
    assert ask(attacked, new.plain, client).status == 429
    assert ask(attacked, new.plain, OTHER, chat=True).status == 200
    assert ask(attacked, new.plain, client).status == 200


def test_the_refusal_says_when_to_retry_and_charges_nothing(attacked: Service, client: str) -> None:
    new = attacked.account().key()
    exhaust(attacked, client)
    answer = ask(attacked, new.plain, client, chat=True)
    assert answer.status == 429
    assert int(answer.headers["retry-after"]) > 0
    assert answer.json["error"]["type"] == "rate_limit_error"
    assert ask(attacked, new.plain, OTHER).json["stats"]["calls"] == 0
    assert "myna_" not in answer.body.decode()


def test_a_revoked_key_that_was_in_use_is_still_refused_as_revoked(attacked: Service, client: str) -> None:
    key = used(attacked, client, chat=True)
    exhaust(attacked, client)
    attacked.revoke(key)
    answer = ask(attacked, key.plain, client)
    assert answer.status == 401
    assert "revoked" in answer.json["error"]["message"]


def test_only_unknown_keys_count(attacked: Service, client: str) -> None:
    account = attacked.account()
    revoked, without_scope = account.key(), account.key(scopes=("records",))
    attacked.revoke(revoked)
    for _ in range(BURST_MAX + 1):
        assert ask(attacked, revoked.plain, client).status == 401
        assert ask(attacked, without_scope.plain, client, chat=True).status == 401
        assert ask(attacked, "no key", client).status == 401
    assert ask(attacked, unknown(), client).status == 401


HELLO = {"voices": [], "clones": [], "slots": 1}


def node_request(service: Service, client: str, path: str, credential: str, data: Any) -> Answer:
    """A request of a compute node, as the proxy of this client sends it."""
    headers = {"x-forwarded-for": client, PROTOCOL_HEADER: str(PROTOCOL)}
    return call("POST", f"{service.root_url}{PREFIX}{path}", key=credential, data=data, headers=headers)


def test_unknown_credentials_and_join_tokens_of_nodes_count_too(attacked: Service, client: str) -> None:
    token = attacked.cli("node", "enroll", "box")["token"]
    second = attacked.cli("node", "enroll", "new")["token"]
    joined = node_request(attacked, client, "/join", "", {"token": token})
    credential = joined.json["credential"]
    statuses = [
        node_request(attacked, client, "/join", "", {"token": "mynajoin_" + secrets.token_hex(20)}).status
        if number % 2
        else node_request(attacked, client, "/hello", "mynanode_" + secrets.token_hex(20), {}).status
        for number in range(BURST_MAX + 2)
    ]
    assert statuses == [401] * BURST_MAX + [429] * 2
    assert node_request(attacked, client, "/join", "", {"token": second}).status == 429
    assert ask(attacked, attacked.account().key().plain, client).status == 429
    assert node_request(attacked, OTHER, "/join", "", {"token": second}).status == 200
    assert node_request(attacked, OTHER, "/hello", credential, HELLO).status == 200
    assert node_request(attacked, client, "/hello", credential, HELLO).status == 200

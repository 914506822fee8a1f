"""The client's address behind trusted proxies, and what untrusted clients write into the same headers."""

import ipaddress
import json
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from myna.http.client_address import HOPS_MAX, UNCLEAR, TrustedProxies
from myna.lib.net import networks
from tests.rig.calls import call
from tests.rig.office import PASSWORD, People
from tests.rig.service import RunningService, Service
from tests.rig.waiting import wait_until

PROXY = "10.0.0.1"
CLIENT = "203.0.113.7"
OTHER = "198.51.100.9"
WAIT_S = 20
PROXIES = TrustedProxies(networks("10.0.0.0/8, fd00::/8,127.0.0.1"))

Headers = list[tuple[bytes, bytes]]


def forwarded(*values: str) -> Headers:
    return [(b"forwarded", value.encode()) for value in values]


def x_forwarded_for(*values: str) -> Headers:
    return [(b"x-forwarded-for", value.encode()) for value in values]


def found(headers: Headers, peer: str = PROXY) -> str:
    return PROXIES.client_address(peer, headers)


def test_headers_of_a_peer_that_is_not_trusted_are_ignored() -> None:
    for peer in (CLIENT, "fe80::1%eth0", "unix", "", "::ffff:203.0.113.7"):
        assert found(x_forwarded_for(OTHER), peer) == peer
        assert found(forwarded(f"for={OTHER}"), peer) == peer
    assert TrustedProxies([]).client_address(PROXY, x_forwarded_for(OTHER)) == PROXY


def test_a_trusted_peer_without_a_header_counts_itself() -> None:
    for peer in (PROXY, "fd00::1", "fd00::1%eth0", "127.0.0.1", "::ffff:10.9.9.9"):
        assert found([(b"x-real-ip", OTHER.encode())], peer) == peer
        assert found(x_forwarded_for(CLIENT), peer) == CLIENT


@pytest.mark.parametrize(
    ("values", "client"),
    [
        ([CLIENT], CLIENT),
        ([f"{CLIENT}:4711"], CLIENT),
        ([f" \t{CLIENT}\t "], CLIENT),
        (["2001:db8::7"], "2001:db8::7"),
        (["2001:DB8:0::7"], "2001:db8::7"),
        (["[2001:db8::7]"], "2001:db8::7"),
        (["[2001:db8::7]:443"], "2001:db8::7"),
        (["::ffff:203.0.113.7"], CLIENT),
        ([f"{OTHER}, {CLIENT}"], CLIENT),
        ([f"{OTHER}, {CLIENT}, 10.1.1.1,fd00::5"], CLIENT),
        ([f"{OTHER}", CLIENT, "10.1.1.1"], CLIENT),
        (["10.2.2.2, 10.1.1.1"], "10.2.2.2"),
        ([f"{CLIENT}, unknown"], PROXY),
        ([f"{CLIENT},, 10.1.1.1"], "10.1.1.1"),
        ([f"{CLIENT},"], PROXY),
        ([""], PROXY),
        (["203.0.113.300"], PROXY),
        ([f"{CLIENT}:"], PROXY),
        ([f"{CLIENT}:123456"], PROXY),
        (["[2001:db8::7"], PROXY),
        (["[203.0.113.7]]"], PROXY),
        (["fe80::1%eth0"], PROXY),
        (["٢٠٣.0.113.7"], PROXY),
        (["localhost"], PROXY),
        ([f"for={CLIENT}"], PROXY),
    ],
)
def test_x_forwarded_for_is_read_from_the_right(values: list[str], client: str) -> None:
    assert found(x_forwarded_for(*values)) == client


@pytest.mark.parametrize(
    ("values", "client"),
    [
        ([f"for={CLIENT}"], CLIENT),
        ([f"For={CLIENT};Proto=https;by=10.0.0.1"], CLIENT),
        ([f"proto=https ; FOR={CLIENT}"], CLIENT),
        ([f'for="{CLIENT}"'], CLIENT),
        ([f'for="{CLIENT}:4711"'], CLIENT),
        ([f'for="{CLIENT}:_port"'], CLIENT),
        (['for="[2001:db8::7]"'], "2001:db8::7"),
        (['for="[2001:db8::7]:443";host="x.example:8080"'], "2001:db8::7"),
        ([f"for={OTHER}", f"for={CLIENT}", 'for="[fd00::5]"'], CLIENT),
        ([f'for={CLIENT}, for="_hidden:_p";proto=http, for=10.1.1.1'], "10.1.1.1"),
        ([f"for={CLIENT}, proto=https"], PROXY),
        ([f"for={CLIENT};for={OTHER}"], PROXY),
        ([f"for={CLIENT}:4711"], PROXY),
        (["for=[2001:db8::7]"], PROXY),
        (["for=2001:db8::7"], PROXY),
        (['for="2001:db8::7"'], PROXY),
        ([f'for="\\{CLIENT}"'], PROXY),
        ([f'for="{CLIENT}'], PROXY),
        ([f"for= {CLIENT}"], PROXY),
        ([f"for={CLIENT};"], PROXY),
        (["for="], PROXY),
        ([CLIENT], PROXY),
    ],
)
def test_forwarded_is_read_from_the_right(values: list[str], client: str) -> None:
    assert found(forwarded(*values)) == client


def test_two_headers_that_name_two_clients_are_not_believed() -> None:
    """nginx passes its client's Forwarded beside the X-Forwarded-For that it writes, unless told not to."""
    assert found(forwarded(f"for={OTHER}") + x_forwarded_for(CLIENT)) == UNCLEAR
    assert found(x_forwarded_for(OTHER) + forwarded(f"for={CLIENT}")) == UNCLEAR
    assert found(forwarded(f"for={CLIENT}") + x_forwarded_for(f"{OTHER}, {CLIENT}")) == CLIENT


@settings(max_examples=50)
@given(st.binary(max_size=200))
def test_what_precedes_the_clients_address_does_not_count(written: bytes) -> None:
    for separator in (b",", b", "):
        value = written + separator + CLIENT.encode()
        assert found([(b"x-forwarded-for", value)]) == CLIENT
        value = written + separator + b"for=" + CLIENT.encode()
        assert found([(b"forwarded", value)]) == CLIENT
    lines = [(b"forwarded", written), (b"forwarded", b"for=%b;proto=http" % CLIENT.encode())]
    assert found(lines) == CLIENT


def test_a_long_header_is_read_up_to_a_limit() -> None:
    hops = [str(ipaddress.ip_address("10.1.0.0") + number) for number in range(6_000)]
    assert found(x_forwarded_for(",".join([CLIENT, *hops]))) == hops[-HOPS_MAX]
    assert found(forwarded(",".join(f"for={hop}" for hop in hops))) == hops[-HOPS_MAX]
    for filler in (",", '"', "\\", ";", "for=", " ", "["):
        assert found(x_forwarded_for(filler * 60_000)) == PROXY
        assert found(forwarded(filler * 60_000)) == PROXY
        assert found(forwarded('for="' + filler * 60_000)) == PROXY


@pytest.fixture(scope="module")
def behind_a_proxy(running_service: RunningService) -> Iterator[Service]:
    with running_service(env={"MYNA_TRUSTED_PROXIES": "127.0.0.0/8"}) as service:
        yield service


def test_sign_ins_are_recorded_and_throttled_by_the_address_a_proxy_names(behind_a_proxy: Service) -> None:
    people = People(behind_a_proxy)
    people.signed_in("ada")
    visitor, neighbour = people.visitor(), people.visitor()
    visitor.headers["x-forwarded-for"] = f"10.0.0.1, {CLIENT}"
    neighbour.headers["forwarded"] = f"for={OTHER}"
    for number in range(5):
        refused = visitor.post("/sign-in", name=f"nobody-{number}", password=PASSWORD)
        assert refused.status == 400
    answer = visitor.post("/sign-in", name="ada", password=PASSWORD)
    assert b"try again in" in answer.body
    assert neighbour.post("/sign-in", name="ada", password=PASSWORD).status == 303
    assert OTHER in json.dumps(behind_a_proxy.cli("account", "sessions", "ada"))


def test_a_refusal_is_found_by_the_address_of_its_client(behind_a_proxy: Service) -> None:
    service = behind_a_proxy
    visitor = People(service).signed_in("bea")
    key = service.cli("key", "issue", "bea", "--name", "new", "--scope", "chat")["id"]
    url = f"{service.root_url}/v1/me"
    assert call("GET", url, key="myna_" + "0" * 40, headers={"x-forwarded-for": CLIENT}).status == 401
    assert call("GET", url, headers={"x-forwarded-for": OTHER}).status == 401

    def shown_at(address: str, message: str) -> bool:
        visitor.headers["x-forwarded-for"] = address
        return message in visitor.page(f"/keys/{key}")

    wait_until(lambda: shown_at(OTHER, "There is no API key"), WAIT_S, "the last refusal is noted")
    assert shown_at(CLIENT, "This API key is unknown")

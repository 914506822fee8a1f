"""GET /me: the key, its scopes and its counters."""

import time

import pytest

from tests.conformance.caller import DELIVERED, REFUNDED, Caller, assert_shape
from tests.conformance.conftest import CallerMaker
from tests.rig.service import ALL_SCOPES

ME = {
    "ok": int,
    "key_name": str,
    "masked": str,
    "scopes": [str],
    "use_count": int,
    "expires_at": int,
    "stats": {"calls": int, "cost": int, "ok_calls": int},
}


def test_a_new_key_has_zero_counters(new_caller: CallerMaker) -> None:
    caller = new_caller(name="钥匙 one", scopes=("chat", "records"))
    me = caller.get("/me").json
    assert_shape(me, ME)
    assert me["ok"] == 1
    assert me["key_name"] == "钥匙 one"
    assert sorted(me["scopes"]) == ["chat", "records"]
    assert me["use_count"] == 0
    assert me["expires_at"] == 0
    assert me["stats"] == {"calls": 0, "cost": 0, "ok_calls": 0}


def test_a_masked_key_is_the_prefix_and_six_digits(caller: Caller) -> None:
    expected = caller.key.plain[: len("myna_") + 6] + "***"
    assert caller.get("/me").json["masked"] == expected == caller.key.masked


@pytest.mark.parametrize("scope", ALL_SCOPES)
def test_me_needs_no_scope(scoped: dict[tuple[str, ...], Caller], scope: str) -> None:
    answer = scoped[scope,].get("/me")
    assert answer.status == 200
    assert answer.json["scopes"] == [scope]


def test_expires_at_is_in_unix_seconds(new_caller: CallerMaker) -> None:
    caller = new_caller(expires_in="30d")
    expires_at = caller.get("/me").json["expires_at"]
    assert expires_at == caller.key.expires_at
    assert abs(expires_at - (time.time() + 30 * 86400)) < 60


def test_counters_follow_delivered_and_refunded_calls(new_caller: CallerMaker) -> None:
    caller = new_caller()
    assert caller.chat("hello").status == 200
    assert caller.stats() == DELIVERED
    assert caller.chat("fault=status:500").status == 500
    assert caller.stats() - DELIVERED == REFUNDED
    assert caller.get("/me").json["use_count"] == 2


def test_each_key_has_its_own_counters(new_caller: CallerMaker) -> None:
    first = new_caller()
    second = Caller(first.service, first.account, first.account.key())
    assert first.chat("hello").status == 200
    assert first.stats() == DELIVERED
    assert second.get("/me").json["use_count"] == 0


def test_reading_me_is_uncharged_and_no_call(caller: Caller) -> None:
    before = caller.stats()
    for path in ("/me", "/models", "/voices", "/records", "/task?id=1"):
        caller.get(path)
    assert caller.stats() == before

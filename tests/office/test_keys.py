"""Keys: made, shown once, listed, revoked; and why their requests are refused."""

import html
import json
import re

import pytest

from tests.rig.calls import Answer, call
from tests.rig.office import People, Visitor, text_of
from tests.rig.service import Service
from tests.rig.waiting import SOON_S, wait_until

CHAT = json.dumps({"model": "svc-chat", "messages": [{"role": "user", "content": "Hello"}]}).encode()
SPEECH = json.dumps({"text": "Hello"}).encode()


@pytest.fixture(scope="module")
def module_people(site: Service) -> People:
    return People(site)


@pytest.fixture(scope="module")
def owner(module_people: People) -> Visitor:
    """An account owner with units."""
    return module_people.signed_in("key-owner", units=500)


@pytest.fixture(scope="module")
def poor(module_people: People) -> Visitor:
    """An account owner without units."""
    return module_people.signed_in("key-owner-without-units", units=0)


def make(visitor: Visitor, name: str = "laptop", **fields: str | list[str]) -> tuple[int, str]:
    """Makes a key; its id and the plain key."""
    page = visitor.result("/keys/new", name=name, **{"scope": ["chat", "tts"], **fields}).body.decode()
    plain = re.search(r"myna_[0-9a-f]{40}", page)
    number = re.search(r'href="/office/keys/(\d+)"', page)
    assert plain and number, page
    return int(number[1]), plain[0]


def send(service: Service, path: str, body: bytes, key: str) -> Answer:
    return call("POST", service.base_url + path, body=body, headers={"authorization": f"Bearer {key}"})


def page_says(visitor: Visitor, path: str, text: str) -> None:
    """Waits until the page says this: a refusal is stored within seconds."""
    says = f"{path} says {text!r}"
    wait_until(lambda: text in html.unescape(visitor.page(path)), SOON_S, says, every_s=0.1)


def test_a_key_is_shown_once_and_works(site: Service, owner: Visitor) -> None:
    key_id, plain = make(owner)
    assert send(site, "/chat/completions", CHAT, plain).status == 200
    for path in ("/keys", f"/keys/{key_id}"):
        assert plain not in owner.get(path).body.decode()
        assert plain[:11] + "***" in owner.page(path)


def test_the_lines_to_paste_have_the_scope_of_the_key(site: Service, owner: Visitor) -> None:
    chat = owner.result("/keys/new", name="chat", scope=["chat"]).body.decode()
    speech = owner.result("/keys/new", name="speech", scope=["tts"]).body.decode()
    assert f"{site.root_url}/openai/v1/chat/completions" in chat and "openai-node" in chat
    assert f"{site.base_url}/tts" in speech and "openai-node" not in speech


def test_a_key_expires_as_the_form_says(site: Service, owner: Visitor) -> None:
    make(owner, "short", expires_in="7d")
    (key,) = [one for one in site.cli("key", "list", "key-owner") if one["name"] == "short"]
    assert key["expires_at"] - key["created_at"] == 7 * 86_400
    assert owner.post("/keys/new", name="long", scope=["chat"], expires_in="soon").status == 400


def test_a_key_is_revoked_when_its_name_was_typed(site: Service, owner: Visitor) -> None:
    key_id, plain = make(owner, "to be revoked")
    assert owner.post(f"/keys/{key_id}/revoke", typed="something else").status == 400
    assert "It was never used." in owner.page(f"/keys/{key_id}/revoke")
    assert send(site, "/chat/completions", CHAT, plain).status == 200
    asked = owner.page(f"/keys/{key_id}/revoke")
    assert re.search(r"It was last used (just now|\d+ seconds? ago) ?, for 1 call in all.", asked)
    assert "is revoked" in owner.submit(f"/keys/{key_id}/revoke", typed="to be revoked")
    assert send(site, "/chat/completions", CHAT, plain).status == 401
    (change,) = site.cli("activity", "--command", f"key revoke {key_id}")
    assert change["by"] == "key-owner"


def test_keys_of_others_are_neither_found_nor_changed(site: Service, owner: Visitor, poor: Visitor) -> None:
    key_id, plain = make(owner)
    for path in ("", "/live", "/revoke"):
        assert poor.get(f"/keys/{key_id}{path}").status == 404
    for action in ("revoke", "rename", "roll", "limits", "cap"):
        assert poor.post(f"/keys/{key_id}/{action}", name="laptop", grace="1h").status == 404
    assert send(site, "/chat/completions", CHAT, plain).status == 200
    (kept,) = [one for one in site.cli("key", "list", "key-owner") if one["id"] == key_id]
    assert (kept["name"], kept["expires_at"]) == ("laptop", 0)


def test_the_numbers_of_the_list_are_those_of_the_command_line(site: Service, owner: Visitor) -> None:
    key_id, plain = make(owner, "counted")
    for _ in range(3):
        send(site, "/chat/completions", CHAT, plain)
    (key,) = [one for one in site.cli("key", "list", "key-owner") if one["id"] == key_id]
    assert key["calls"] == 3
    row = re.search(
        rf'(?s)<tr[^>]*>\s*<td><a href="/office/keys/{key_id}".*?</tr>', owner.get("/keys").body.decode()
    )
    assert row
    numbers = re.findall(r'<td class="number">([^<]*)</td>', row[0])
    assert numbers[:2] == [f"{key['cost']:,}", f"{key['calls']:,}"]


# ---- the waiting line


def test_too_few_units_are_explained(site: Service, poor: Visitor) -> None:
    key_id, plain = make(poor)
    refused = send(site, "/chat/completions", CHAT, plain)
    assert refused.status == 402
    page_says(poor, f"/keys/{key_id}", refused.json["error"]["message"])
    text = poor.page(f"/keys/{key_id}")
    assert refused.headers["x-request-id"] in text
    assert "redeem a code" in text
    text = text_of(poor.get(f"/keys/{key_id}", {"accept-language": "zh"}))
    assert re.search("账户余额 0 点，本次调用需要 [0-9]+ 点。余额不足，请联系管理员。", text), text


@pytest.mark.parametrize(
    ("status", "path", "body", "last_digit", "said"),
    [
        (401, "/v1/tts", SPEECH, "", ["This API key lacks the tts scope", "Make a key with this scope"]),
        (401, "/v1/chat/completions", CHAT, "x", ["This API key is unknown", "from your network address"]),
        (404, "/chat/completions", CHAT, "", ["The base URL of this site ends in /v1, once."]),
    ],
    ids=["a missing scope", "a wrong key", "a base URL without v1"],
)
def test_a_refused_request_is_explained(
    site: Service, owner: Visitor, status: int, path: str, body: bytes, last_digit: str, said: list[str]
) -> None:
    key_id, plain = make(owner, scope="chat")
    key = plain[:-1] + ("0" if plain[-1] != "0" else "1") if last_digit else plain
    headers = {"authorization": f"Bearer {key}"}
    assert call("POST", f"{site.root_url}{path}", body=body, headers=headers).status == status
    for text in said:
        page_says(owner, f"/keys/{key_id}", text)


def test_an_invalid_request_is_explained_after_a_good_one(site: Service, owner: Visitor) -> None:
    key_id, plain = make(owner)
    assert send(site, "/chat/completions", CHAT, plain).status == 200
    refused = send(site, "/chat/completions", b'{"model": "<b>"}', plain)
    assert refused.status == 400
    page_says(owner, f"/keys/{key_id}", "The last refused request")
    page_says(owner, f"/keys/{key_id}", refused.json["error"]["message"])
    assert "<b>" not in owner.get(f"/keys/{key_id}").body.decode()


# ---- rename and roll


def test_a_key_is_renamed(site: Service, owner: Visitor) -> None:
    key_id, _ = make(owner, "before")
    assert "after" in owner.submit(f"/keys/{key_id}/rename", name="after")
    assert owner.post(f"/keys/{key_id}/rename", name=" ").status == 400
    (key,) = [one for one in site.cli("key", "list", "key-owner") if one["id"] == key_id]
    assert key["name"] == "after"


def test_a_rolled_key_is_replaced_and_works_for_the_grace_period(site: Service, owner: Visitor) -> None:
    key_id, plain = make(owner, "rolled")
    answer = owner.result(f"/keys/{key_id}/roll", grace="1h")
    new = re.search(r"myna_[0-9a-f]{40}", answer.body.decode())
    assert answer.status == 200 and new and new[0] != plain
    for key in (plain, new[0]):
        assert send(site, "/chat/completions", CHAT, key).status == 200
    old, renewed = [one for one in site.cli("key", "list", "key-owner") if one["name"] == "rolled"]
    assert old["expires_at"] > 0 and renewed["expires_at"] == 0
    assert owner.post(f"/keys/{key_id}/roll", grace="soon").status == 400


# ---- limits and routes


def test_limits_and_routes_of_a_key_are_set_and_shown(site: Service, owner: Visitor) -> None:
    assert "Models it may use" not in owner.page("/keys/new"), "only the operator's routes need a choice"
    site.cli("route", "add", "gpt-*", "--units", "1")
    key_id, _ = make(owner, "limited", scope="chat", rpm="7", route=["gpt-*", "tts-1"])
    path = f"/keys/{key_id}"
    page = owner.get(path).body.decode()
    assert "tts-1" in page
    assert "whisper-1" not in page, "it is not installed"
    assert 'value="7"' in page
    assert page.count(" checked") == 2
    assert owner.post(f"{path}/limits", rpm="many").status == 400
    said = owner.submit(f"{path}/limits", concurrent="2", units_per_day="none", route=["svc-chat"])
    assert "The limits are set." in said
    (limits,) = site.cli("activity", "--command", f"key limit {key_id}")
    assert limits["command"] == f"myna key limit {key_id} --rpm default --concurrent 2 --units-per-day none"
    (routes,) = site.cli("activity", "--command", f"key routes {key_id}")
    assert routes["command"] == f"myna key routes {key_id} --route svc-chat"


# ---- caps


def test_a_cap_refuses_and_the_page_says_so(site: Service, owner: Visitor) -> None:
    key_id, plain = make(owner, "capped", scope="chat", cap_units="1", cap_period="day")
    assert send(site, "/chat/completions", CHAT, plain).status == 200
    refused = send(site, "/chat/completions", CHAT, plain)
    assert refused.status == 402
    path = f"/keys/{key_id}"
    page_says(owner, path, refused.json["error"]["message"])
    text = owner.page(path)
    assert "Change the cap of this key" in text and "1 of 1" in text
    assert "1 / 1" in owner.page("/keys")

    assert owner.post(f"{path}/cap", cap_units="0", cap_period="day").status == 400
    assert "The cap is set." in owner.submit(f"{path}/cap", cap_units="5", cap_period="day")
    assert send(site, "/chat/completions", CHAT, plain).status == 200
    assert "no cap now" in owner.submit(f"{path}/cap", cap_units="")
    assert [one["command"] for one in site.cli("activity", "--command", f"key cap {key_id}")] == [
        f"myna key cap {key_id} none",
        f"myna key cap {key_id} 5/day",
    ]

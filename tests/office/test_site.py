"""The operators' pages: accounts, codes, calls, settings, health, the activity log, compute nodes."""

import re
from urllib.parse import quote

import pytest

from tests.office.conftest import MakeSite
from tests.office.test_records import speak, with_key
from tests.rig.calls import Wire, call
from tests.rig.compute_node import NodeMaker
from tests.rig.office import PASSWORD, People, Visitor, text_of
from tests.rig.service import Service
from tests.rig.waiting import SOON_S, wait_until


def account_page(operator: Visitor, name: str) -> str:
    """The address of an account's page."""
    html = operator.get(f"/site/accounts?q={name}").body.decode()
    found = re.search(rf'href="/office(/site/accounts/\d+)">{name}<', html)
    assert found, html
    return found[1]


def last_command(operator: Visitor) -> str:
    html = operator.get("/site/activity").body.decode()
    found = re.search(r'<td class="mono">(myna [^<]*)</td>', html)
    assert found
    return found[1]


def test_a_grant_is_in_the_ledger_and_in_the_activity(people: People, operator: Visitor) -> None:
    owner = people.signed_in("grantee", units=1)
    page = account_page(operator, "grantee")
    assert "+41 units for grantee." in operator.submit(f"{page}/grant", units="41", memo="<i>thanks</i>")
    assert "&lt;i&gt;thanks&lt;/i&gt;" in owner.get("/ledger").body.decode()
    assert people.service.cli("account", "show", "grantee")["balance"] == 42
    assert last_command(operator).startswith("myna account grant grantee 41 --memo")
    refused = operator.post(f"{page}/grant", units="-100", memo="")
    assert refused.status == 400
    assert "The account has 42 units; 100 can&#39;t be taken." in refused.body.decode()
    assert operator.post(f"{page}/grant", units="many", memo="").status == 400


@pytest.mark.parametrize(("host", "works"), [("myna.lan:8080", True), ("localhost:8080", False)])
def test_addresses_for_others_are_those_that_the_browser_uses(
    people: People, operator: Visitor, host: str, works: bool
) -> None:
    people.service.cli("account", "add", f"guest-of-{host}")
    page = account_page(operator, f"guest-of-{host}")
    browser = {"host": host, "origin": f"http://{host}"}
    operator.post(f"{page}/invite", browser)
    shown = [text_of(operator.get(page, browser))]
    operator.post("/site/nodes/enroll", browser, name=f"node-of-{works}")
    shown.append(text_of(operator.get(f"/site/nodes/one?name=node-of-{works}", browser)))
    assert f"http://{host}/office/welcome?token=" in shown[0]
    assert f"myna node join http://{host} " in shown[1]
    assert [("works only on this machine" in text) for text in shown] == [not works] * 2
    assert f"curl http://{host}/v1/chat/completions" in text_of(operator.get("/try", browser))
    assert f"http://{host}/openai/v1" in text_of(people.signed_in(f"keyless-{works}").get("/keys", browser))


def test_the_limits_of_an_account_are_set_and_shown(people: People, operator: Visitor) -> None:
    site = people.service
    site.account(name="held", units=10)
    page = account_page(operator, "held")
    said = operator.submit(f"{page}/limits", rpm="1", units_per_day="none")
    assert "The limits are set." in said
    assert (
        last_command(operator) == "myna account limit held --rpm 1 --concurrent default --units-per-day none"
    )
    html = operator.get(page).body.decode()
    assert re.search(r'name="rpm"[^>]* value="1"', html)
    assert re.search(r'name="concurrent"[^>]* value="" [^>]*placeholder="none"', html)
    assert re.search(r'name="units_per_day"[^>]* value="none"', html)


def test_a_form_can_not_make_an_operator(people: People, operator: Visitor) -> None:
    operator.post("/site/accounts/new", name="sneaky", email="", units="0", operator="1")
    assert people.service.cli("account", "show", "sneaky")["operator"] is False


def test_an_invited_person_chooses_the_password(people: People, operator: Visitor) -> None:
    answer = operator.result("/site/accounts/new", name="invited", email="", units="3")
    link = re.search(r"http://[^<\s]+/office/welcome\?token=\w+", answer.body.decode())
    assert link
    person = people.visitor()
    path = link[0].partition("/office")[2]
    assert "invited" in person.page(path), "a link that is opened changes nothing"
    weak = person.post(path, token=path.partition("token=")[2], password="passwordpassword")
    assert (weak.status, "easy to guess" in text_of(weak)) == (400, True)
    person.open_link(link[0])
    assert "invited" in person.page("/me")
    assert people.visitor().post("/welcome", token=link[0].split("=")[1], password=PASSWORD).status in (
        400,
        410,
    )


def test_a_disabled_account_is_out_at_once(people: People, operator: Visitor) -> None:
    visitor, key = with_key(people, "shut-out")
    page = account_page(operator, "shut-out")
    assert visitor.post("/try", text="Hello", model="svc-chat", once="5" * 32).status == 200
    assert "Keys 1 Sessions" in operator.page(page), "the hidden key of the page Try is not counted"
    assert operator.post(f"{page}/switch", typed="wrong").status == 400
    operator.submit(f"{page}/switch", typed="shut-out")
    assert visitor.get("/keys").status == 303
    assert call("GET", f"{people.service.base_url}/me", key=key.plain).status == 401
    operator.submit(f"{page}/switch")
    assert call("GET", f"{people.service.base_url}/me", key=key.plain).status == 200


def test_codes_are_shown_once_and_can_be_disabled(people: People, operator: Visitor) -> None:
    answer = operator.result("/site/codes", units="25", count="2", uses="1", expires="30d", memo="spring")
    codes = sorted(set(re.findall(r"\b(?:[A-Z2-9]{5}-){3}[A-Z2-9]{5}\b", text_of(answer))))
    assert len(codes) == 2
    listing = operator.page("/site/codes")
    assert "spring" in listing
    assert codes[0] not in listing
    visitor = people.signed_in("gatherer", units=0)
    assert "25 units added" in visitor.submit("/ledger", code=codes[0])
    batch = re.findall(r"/office(/site/codes/\d+/disable)", operator.get("/site/codes").body.decode())[0]
    asked = operator.page(batch)
    assert "Codes: 2. Units each: 25. Uses left: 1, worth in units: 25." in asked
    operator.submit(batch)
    assert "This code is disabled" in text_of(visitor.post("/ledger", code=codes[1]))


def test_a_call_is_found_by_its_request_and_its_text_is_private(people: People, operator: Visitor) -> None:
    _, key = with_key(people, "caller-one")
    speak(people, key, "Nobody else reads this")
    body = {"model": "svc-chat", "messages": [{"role": "user", "content": "Hello"}]}
    answer = call("POST", f"{people.service.base_url}/chat/completions", key=key.plain, data=body)
    request_id = answer.headers["x-request-id"]
    page = operator.page(f"/site/calls?q={request_id}")
    assert "caller-one" in page
    assert request_id in page and " svc-chat " in page
    sent = {"X-Request-Id": "from-the-client.1"}
    call("POST", f"{people.service.base_url}/chat/completions", key=key.plain, data=body, headers=sent)
    assert "caller-one" in operator.page("/site/calls?q=from-the-client.1")
    of_account = operator.get("/site/calls?q=caller-one").body.decode()
    pages = re.findall(r"/office(/site/calls/[0-9a-f]{32})", of_account)
    assert len(set(pages)) == 3
    assert not any("Nobody else reads this" in operator.page(one) for one in set(pages))
    assert "No such call" in operator.page("/site/calls?q=" + "0" * 32)
    assert "The calls of the last 24 hours were searched." in operator.page("/site/calls?q=unknown")
    assert "The calls of the last 30 days were searched." in operator.page("/site/calls?q=unknown&days=30")


def test_a_setting_changes_at_once(people: People, operator: Visitor) -> None:
    assert "owner is Ann &amp; Bob now." in operator.submit("/site/settings", name="owner", value="Ann & Bob")
    assert people.service.cli("settings", "get", "owner")["value"] == "Ann & Bob"
    refused = operator.post("/site/settings", name="chat_units", value="-1")
    assert refused.status == 400
    assert "must be a whole number" in refused.body.decode()
    operator.submit("/site/settings", name="owner", value="myna")


def test_health_tells_the_state_of_books_and_parts(people: People, operator: Visitor) -> None:
    people.service.cli("audit")
    page = operator.page("/site/health")
    assert "Ledger entries OK no breach found" in page
    assert "attention" not in page
    assert "a call has exactly one charge" in page


PATH = "/site/nodes"
HOSTILE = "<img src=x> & 'box'/.."
NODE_TOML = """
slots = 1

[[engine]]
kind = "espeak"
"""


def states(site: Service) -> dict[str, str]:
    return {row["name"]: row["state"] for row in site.cli("node", "list")}


def enroll(operator: Visitor, name: str, **more: str) -> str:
    """The join token that the page shows."""
    answer = operator.result(f"{PATH}/enroll", name=name, **more)
    assert answer.status == 200, text_of(answer)
    token = re.search(r"mynajoin_[0-9a-f]{40}", answer.body.decode())
    assert token
    return token[0]


def test_a_join_token_is_shown_once_and_recorded_without_it(operator: Visitor, site: Service) -> None:
    token = enroll(operator, "once")
    assert token not in operator.get(f"{PATH}/one?name=once").body.decode()
    recorded = [row["command"] for row in site.cli("activity", "--limit", "20")]
    assert "myna node enroll once" in recorded
    assert not any(token in command for command in recorded)
    operator.submit(f"{PATH}/remove", name="once", typed="once")


def test_a_hostile_name_is_text_and_can_be_removed(operator: Visitor, site: Service) -> None:
    enroll(operator, HOSTILE)
    for path in (PATH, f"{PATH}/one?name={quote(HOSTILE, safe='')}"):
        page = operator.get(path)
        assert page.status == 200
        assert b"<img" not in page.body.replace(b'<img src="/office/static', b"")
    assert operator.post(f"{PATH}/remove", name=HOSTILE, typed="box").status == 400
    operator.submit(f"{PATH}/remove", name=HOSTILE, typed=HOSTILE)
    assert HOSTILE not in states(site)


def test_nodes_are_followed_live(operator: Visitor) -> None:
    enroll(operator, "followed")
    for path, said in ((f"{PATH}/live", "followed"), (f"{PATH}/one/live?name=followed", "Waiting")):
        with Wire(operator.service.root_url) as wire:
            wire.head(f"GET /office{path} HTTP/1.1", f"Cookie: myna={operator.cookies['myna']}")
            heard = b""
            while b"event: content" not in heard or said.encode() not in heard:
                received = wire.socket.recv(65536)
                assert received, heard
                heard += received
    operator.submit(f"{PATH}/remove", name="followed", typed="followed")


def test_a_node_is_drained_disabled_and_enabled(operator: Visitor, site: Service) -> None:
    enroll(operator, "worker")
    for action, state in (("disable", "disabled"), ("enable", "invited")):
        operator.submit(f"{PATH}/{action}", name="worker")
        assert states(site)["worker"] == state
    operator.submit(f"{PATH}/drain", name="worker")
    assert "Enable" in operator.page(f"{PATH}/one?name=worker")
    operator.submit(f"{PATH}/remove", name="worker", typed="worker")


def test_a_node_says_its_name_in_a_call_of_the_operator(make_site: MakeSite, make_node: NodeMaker) -> None:
    site = make_site()
    visitor = People(site).signed_in("speaking-operator", operator=True)
    token = enroll(visitor, "garage")
    make_node(NODE_TOML).join(site.root_url, token).start()
    page = f"{PATH}/one?name=garage"
    wait_until(
        lambda: "Let it say its name" in visitor.page(page), SOON_S, "the node can be heard", every_s=0.1
    )
    form = visitor.get(page).body.decode().partition('action="/office/try/speech"')[2]
    fields = dict(re.findall(r'name="(\w+)" value="([^"]*)"', form.partition("</form>")[0]))
    assert fields["text"] == "This is garage."
    ordered = visitor.post("/try/speech", **fields)
    assert ordered.status == 200, text_of(ordered)
    task = re.search(r'data-live="/office(/try/tasks/\d+)/live"', ordered.body.decode())
    assert task, text_of(ordered)
    wait_until(
        lambda: b"<audio" in visitor.get(task[1]).body, SOON_S, "the sentence can be heard", every_s=0.1
    )
    key = with_key(People(site), "charged")[1]  # a process that charges no calls adds up hours twice a minute
    assert call("POST", f"{site.base_url}/tts", key=key.plain, data={"text": "Hello."}).status == 200
    wait_until(lambda: strip(visitor), SOON_S, "both calls are in the hours of the node", every_s=0.1)
    assert "node:garage" in visitor.page("/site/channels")


def strip(visitor: Visitor) -> bool:
    """Whether a node's hours are on the page, with the two calls of the present hour."""
    return bool(re.search(r"<title>[^<]*:00: 2</title>", visitor.get(PATH).body.decode()))


def test_an_unknown_node_and_a_refused_name_are_said(operator: Visitor) -> None:
    assert operator.get(f"{PATH}/one?name=nobody").status == 404
    assert operator.get(f"{PATH}/one/live?name=nobody").status == 404
    assert "There is no node" in text_of(operator.post(f"{PATH}/drain", name="nobody"))
    assert "A name has 1 to 100" in text_of(operator.post(f"{PATH}/enroll", name="x" * 101))

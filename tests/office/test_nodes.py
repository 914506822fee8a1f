"""Operators invite a machine and see it join, live, until it can be heard."""

import re
from urllib.parse import quote

from tests.office.conftest import MakeSite
from tests.rig.calls import Wire
from tests.rig.compute_node import NodeMaker
from tests.rig.office import People, Visitor, text_of
from tests.rig.service import Service
from tests.rig.waiting import SOON_S, wait_until

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
    wait_until(lambda: strip(visitor), SOON_S, "the call is in the hours of the node", every_s=0.1)
    assert "node:garage" in visitor.page("/site/channels")


def strip(visitor: Visitor) -> bool:
    """Whether a node's hours are on the page, with the one call of the present hour."""
    return bool(re.search(r"<title>[^<]*:00: 1</title>", visitor.get(PATH).body.decode()))


def test_an_unknown_node_and_a_refused_name_are_said(operator: Visitor) -> None:
    assert operator.get(f"{PATH}/one?name=nobody").status == 404
    assert operator.get(f"{PATH}/one/live?name=nobody").status == 404
    assert "There is no node" in text_of(operator.post(f"{PATH}/drain", name="nobody"))
    assert "A name has 1 to 100" in text_of(operator.post(f"{PATH}/enroll", name="x" * 101))

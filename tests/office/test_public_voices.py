"""Operators order, rename, hide and hear the public voices."""

import re

import pytest

from tests.rig.calls import call
from tests.rig.office import People, Visitor, text_of
from tests.rig.service import Service

PATH = "/site/voices"
HOSTILE = "<script>alert(1)</script>"


@pytest.fixture(scope="module")
def operator(site: Service) -> Visitor:
    return People(site).signed_in("voice-operator", operator=True)


def listed(site: Service) -> list[dict[str, str]]:
    """As GET /v1/voices lists them."""
    return list(site.cli("voice", "list"))


def ids(site: Service) -> list[str]:
    return [row["voice_id"] for row in listed(site)]


def test_a_voice_is_heard_without_a_charge(operator: Visitor, site: Service) -> None:
    answer = operator.result(f"{PATH}/listen", voice_id=ids(site)[-1])
    audio = re.search(r'src="(/uploads/[0-9a-f]{32}\.mp3)"', answer.body.decode())
    assert audio, text_of(answer)
    assert len(call("GET", site.root_url + audio[1]).body) > 1000
    assert site.cli("account", "show", "voice-operator")["balance"] == 1000


def test_voices_are_moved_by_one_place_and_to_the_first(operator: Visitor, site: Service) -> None:
    before = ids(site)
    operator.submit(f"{PATH}/move", voice_id=before[2], to="up")
    assert ids(site) == [before[0], before[2], before[1], *before[3:]]
    operator.submit(f"{PATH}/move", voice_id=before[0], to="down")
    assert ids(site)[:3] == [before[2], before[0], before[1]]
    operator.submit(f"{PATH}/move", voice_id=before[-1], to="first")
    assert ids(site) == [before[-1], before[2], before[0], before[1], *before[3:-1]]
    assert site.cli("activity", "--limit", "1")[0]["command"].startswith(f"myna voice order {before[-1]} ")


def test_a_voice_is_renamed_as_text_and_hidden(operator: Visitor, site: Service) -> None:
    voice_id, name = ids(site)[0], listed(site)[0]["name"]
    operator.submit(f"{PATH}/rename", voice_id=voice_id, name=HOSTILE)
    assert listed(site)[0]["name"] == HOSTILE
    assert HOSTILE.encode() not in operator.get(PATH).body
    operator.submit(f"{PATH}/rename", voice_id=voice_id, name="")
    assert listed(site)[0]["name"] == name
    operator.submit(f"{PATH}/hide", voice_id=voice_id)
    assert listed(site)[0]["hidden"]
    operator.submit(f"{PATH}/show", voice_id=voice_id)
    assert not listed(site)[0]["hidden"]


def test_two_voices_of_one_name_can_be_told_apart(operator: Visitor, site: Service) -> None:
    assert "· en-us-female-1" not in operator.get("/try/speech").body.decode()
    site.cli("voice", "rename", "en-us-female-1", "Alice")
    site.cli("voice", "rename", "en-us-female-2", "Alice")
    page = operator.page("/try/speech")
    assert "Alice · en-US · en-us-female-1" in page and "Alice · en-US · en-us-female-2" in page
    for voice_id in ("en-us-female-1", "en-us-female-2"):
        site.cli("voice", "rename", voice_id, "")


def test_refused_changes_say_why(operator: Visitor) -> None:
    for action in ("listen", "move", "rename", "hide"):
        answer = operator.post(f"{PATH}/{action}", voice_id="nobody", name="n")
        assert answer.status == 400
        assert "There is no public voice" in text_of(answer)
    refused = operator.post(f"{PATH}/blend", voice_id="mixed", recipe="a:1+b:1")
    assert (refused.status, "No speech channel can blend voices" in text_of(refused)) == (400, True)
    assert "There is no blend" in text_of(operator.post(f"{PATH}/blend/delete", voice_id="nobody"))

"""How words are read: the page of an account's words and that of the site's, and how Try shows a reading."""

import re

import pytest

from tests.office.conftest import MakeSite
from tests.rig.office import People, text_of
from tests.rig.service import Service


@pytest.fixture
def site(make_site: MakeSite) -> Service:
    return make_site(chat_url="parrot:", speech="espeak")


def test_words_are_set_heard_and_removed(site: Service) -> None:
    people = People(site)
    ann, operator = people.signed_in("ann"), people.signed_in("an-operator", operator=True)
    refused = ann.post("/words", word="行长", reading="hang2")
    assert refused.status == 400
    assert "has 2 characters" in refused.body.decode()
    assert 'value="hang2"' in refused.body.decode()

    ann.submit("/words", word="行长", reading="háng zhǎng")
    operator.submit("/site/words", word="Myna", reading="MY-nuh")
    assert [(row["word"], row["account"]) for row in site.cli("voice", "word", "list")] == [("Myna", "")]
    page = ann.get("/words").body.decode()
    assert re.findall(r"<td>([^<]+)</td>", page) == ["行长", "hang2 zhang3"]
    (listen,) = re.findall(r'href="/office(/try/speech\?text=[^"]+)"', page)
    assert "行长</textarea>" in ann.get(listen).body.decode()

    read = ann.post("/try/reading", text="<speak>行长用Myna</speak>", voice_id="zh-female-1", speed="1")
    assert read.status == 200
    assert "hang2 zhang3用my-nuh" in text_of(read)
    assert site.cli("account", "show", "ann")["balance"] == 1000
    unknown = ann.post("/try/reading", text="好", voice_id="nobody", speed="1")
    assert "How this voice reads is not known" in text_of(unknown)
    assert ann.post("/try/reading", text=" ", speed="1").status == 400

    ann.submit("/words/remove", word="行长")
    assert "<table>" not in ann.get("/words").body.decode()
    assert ann.get("/site/words").status == 404

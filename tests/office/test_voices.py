"""The voices: listed, previewed, cloned, deleted."""

import html
import re
from collections.abc import Iterator
from typing import Any

import pytest

from myna.voices.clones import CONSENT, CONSENTS
from tests.farm.node_client import NodeClient, NodeSite, mp3
from tests.office.conftest import MakeSite
from tests.office.test_keys import make
from tests.rig.calls import call
from tests.rig.office import People, Visitor
from tests.rig.samples import write_voice
from tests.rig.service import Service

NAME = '<i>Ann</i> & "co"'
FORM = {
    "name": NAME,
    "language": "en",
    "transcript": "What Ann says",
    "consent": "true",
    "consent_by": "Ann herself",
}


@pytest.fixture(scope="module")
def clone_site(make_site: MakeSite) -> Iterator[NodeSite]:
    """A site that only compute nodes speak and clone for. One of them never takes a job."""
    made = NodeSite(service := make_site(chat_url="parrot:"))
    made.node(clones=["en"])
    yield made
    assert service.command("audit", "--audio", "--json").code == 0


@pytest.fixture(scope="module")
def ann(clone_site: NodeSite) -> Visitor:
    return People(clone_site.service).signed_in("ann")


@pytest.fixture(scope="module")
def ben(clone_site: NodeSite) -> Visitor:
    return People(clone_site.service).signed_in("ben")


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return write_voice(tmp_path_factory.mktemp("recording") / "voice.wav", 4).read_bytes()


@pytest.fixture
def node(clone_site: NodeSite) -> Iterator[NodeClient]:
    """A node that clones English voices."""
    node = clone_site.node(clones=["en"])
    yield node
    clone_site.service.cli("node", "remove", node.name)


def cloned(visitor: Visitor, recording: bytes) -> str:
    """Clones a voice by the form; its id."""
    answer = visitor.upload("/voices/new", ("sample", "Ann's voice.wav", recording), **FORM)
    assert answer.status == 303, html.unescape(answer.body.decode())
    return answer.headers["location"].rpartition("/")[2]


def listed(service: Service, voice_id: str) -> dict[str, Any]:
    (found,) = [row for row in service.cli("voice", "list") if row["voice_id"] == voice_id]
    return dict(found)


def rows(visitor: Visitor, query: str = "") -> list[str]:
    """The ids of the public voices that the page lists."""
    found = re.findall(
        r'<span class="small mono">([^<]+)</span>', visitor.get(f"/voices{query}").body.decode()
    )
    return [str(voice_id) for voice_id in found]


# ---- public voices


def test_the_page_lists_the_voices_of_the_api(site: Service, people: People) -> None:
    visitor = people.signed_in("voice-reader")
    _, key = make(visitor, scope="tts")
    answer = call("GET", f"{site.base_url}/voices", key=key).json
    assert rows(visitor) == [one["voice_id"] for one in answer["data"]]
    page = visitor.page("/voices")
    assert page.count("default") == 1
    assert page.index("default") < page.index(answer["default"])


def test_the_list_is_searched_and_filtered(people: People) -> None:
    visitor = people.signed_in("voice-searcher")
    assert set(rows(visitor, "?language=yue")) == {"yue-female-1", "yue-female-2", "yue-male-1"}
    assert rows(visitor, "?language=yue&gender=male") == ["yue-male-1"]
    assert '<html lang="en">' in visitor.get("/voices?language=yue").body.decode()
    assert rows(visitor, "?q=EMMA") == ["en-us-female-1"]
    assert "No voice matches" in visitor.page("/voices?q=nobody%20has%20this")


def test_a_preview_is_spoken_once_for_everybody_and_free(site: Service, people: People) -> None:
    first, second = people.signed_in("preview-first", units=0), people.signed_in("preview-second", units=0)
    previews = site.folder / "data" / "previews"
    before = set(previews.glob("*"))
    heard = first.get("/voices/zh-female-1/preview")
    assert (heard.status, heard.headers["content-type"]) == (200, "audio/mpeg")
    (file,) = set(previews.iterdir()) - before
    assert file.read_bytes() == heard.body
    changed = file.stat().st_mtime_ns
    again = second.get("/voices/zh-female-1/preview", headers={"range": "bytes=0-99"})
    assert (again.status, again.body) == (206, heard.body[:100])
    assert file.stat().st_mtime_ns == changed
    assert site.cli("ledger", "preview-first") == []


def test_a_preview_needs_a_session_and_a_voice(site: Service, people: People) -> None:
    assert people.visitor().get("/voices/zh-female-1/preview").status == 303
    assert people.signed_in("preview-none").get("/voices/nobody/preview").status == 404
    site.cli("voice", "hide", "zh-male-3")
    assert people.signed_in("preview-hidden").get("/voices/zh-male-3/preview").status == 404
    site.cli("voice", "show", "zh-male-3")


def test_a_voice_of_a_node_has_no_preview(clone_site: NodeSite, ann: Visitor) -> None:
    node = clone_site.node("en-node-1")
    assert rows(ann) == ["en-node-1"]
    assert "data-play" not in ann.get("/voices").body.decode()
    assert ann.get("/voices/en-node-1/preview").status == 404
    clone_site.service.cli("node", "remove", node.name)


# ---- cloned voices


def test_cloning_is_not_offered_where_no_node_clones(people: People, recording: bytes) -> None:
    visitor = people.signed_in("cloner-without-nodes")
    assert "/office/voices/new" not in visitor.get("/voices").body.decode()
    form = visitor.get("/voices/new").body.decode()
    assert "no node of this site does" in form and 'name="consent"' not in form
    answer = visitor.upload("/voices/new", ("sample", "a.wav", recording), **FORM)
    assert (answer.status, "no node of this site does" in answer.body.decode()) == (400, True)
    assert "clone" not in {row["source"] for row in people.service.cli("voice", "list")}


def test_a_clone_from_a_file(clone_site: NodeSite, ann: Visitor, recording: bytes, node: NodeClient) -> None:
    voice_id = cloned(ann, recording)
    page = ann.get(f"/voices/{voice_id}").body.decode()
    assert NAME not in page and html.escape(NAME).replace("&quot;", "&#34;") in page
    assert CONSENT in page and "Ann herself (given in the back office by ann)" in page
    node.complete(node.take(), mp3())
    preview = re.search(r'src="(/uploads/[0-9a-f]{32}\.mp3)"', ann.get(f"/voices/{voice_id}").body.decode())
    assert preview
    live = ann.get(f"/voices/{voice_id}/live").body.decode()
    assert preview[1] in live and "event: end" in live
    assert call("GET", clone_site.service.root_url + preview[1]).body == mp3()
    assert listed(clone_site.service, voice_id)["status"] == "ready"
    (change,) = clone_site.service.cli("activity", "--command", "voice clone", "--limit", "1")
    assert change["by"] == "ann"
    assert "voice.wav" in change["command"] and "/samples/" not in change["command"]
    assert clone_site.service.cli("ledger", "ann")[0]["kind"] == "grant"
    samples = [path for path in (clone_site.service.folder / "data" / "samples").rglob("*") if path.is_file()]
    assert len(samples) == len([v for v in clone_site.service.cli("voice", "list") if v["source"] == "clone"])


def test_consent_is_declared_and_kept_in_the_pages_language(clone_site: NodeSite, recording: bytes) -> None:
    visitor = People(clone_site.service).signed_in("xiaoming")
    visitor.headers["accept-language"] = "zh"
    form = visitor.get("/voices/new").body.decode()
    assert CONSENTS["zh"] in form and CONSENT not in form
    voice_id = cloned(visitor, recording)
    assert CONSENTS["zh"] in visitor.get(f"/voices/{voice_id}").body.decode()
    visitor.submit(f"/voices/{voice_id}/delete", typed=NAME)


def test_a_refused_recording_is_explained_as_by_the_command(
    clone_site: NodeSite, ben: Visitor, recording: bytes
) -> None:
    refusals: list[tuple[bytes, dict[str, str], str]] = [
        (b"", {}, "Record your voice, or choose a file."),
        (b"no sound", {}, "The file is not a recording that Myna can read"),
        (recording, {"consent": ""}, "only with the consent"),
        (recording, {"language": "English"}, "The language must be its code alone"),
        (recording, {"name": " "}, "must be filled in"),
    ]
    for sound, fields, message in refusals:
        answer = ben.upload("/voices/new", ("sample", "a.wav", sound), **{**FORM, **fields})
        assert (answer.status, message in answer.body.decode()) == (400, True), message
        assert 'value="Ann herself"' in answer.body.decode()
    assert clone_site.service.cli("voice", "list", "--account", "ben") == []


def test_clones_of_others_are_404(clone_site: NodeSite, ann: Visitor, ben: Visitor, recording: bytes) -> None:
    voice_id = cloned(ann, recording)
    pages = [ben.get(f"/voices/{voice_id}{path}") for path in ("", "/live", "/preview", "/delete")]
    deletion = ben.post(f"/voices/{voice_id}/delete", typed=NAME)
    assert [answer.status for answer in (*pages, deletion)] == [404] * 5
    assert voice_id not in ben.get("/voices").body.decode()
    assert listed(clone_site.service, voice_id)["account"] == "ann"
    ann.submit(f"/voices/{voice_id}/delete", typed=NAME)  # so that no node of another test takes it


def test_a_voice_is_deleted_when_its_name_was_typed(
    clone_site: NodeSite, ann: Visitor, recording: bytes
) -> None:
    voice_id = cloned(ann, recording)
    assert ann.post(f"/voices/{voice_id}/delete", name="Ann").status == 400
    assert "is deleted, with its recording" in ann.submit(f"/voices/{voice_id}/delete", typed=NAME)
    assert ann.get(f"/voices/{voice_id}").status == 404
    (change,) = clone_site.service.cli("activity", "--command", f"voice delete {voice_id}")
    assert change["by"] == "ann"

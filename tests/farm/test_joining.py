"""Joining, disabling and removing compute nodes."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from myna.wire.farm import PREFIX
from tests.farm.node_client import HEADERS, NodeClient, NodeSite, new_name, new_voice
from tests.rig.calls import Answer, call

REFUSED = "This join token is unknown, used or older than an hour; ask the operator for a new one."


def refusal(answer: Answer, status: int = 401) -> str:
    assert answer.status == status, answer
    error = answer.json["error"]
    assert error["code"] == status
    return str(error["message"])


def beat(site: NodeSite, credential: str) -> Answer:
    """Sends a beat without jobs, the cheapest authenticated request."""
    return call("POST", site.url("beat"), key=credential, data={"beats": []}, headers=HEADERS)


def test_a_node_joins_under_the_name_of_its_token(site: NodeSite) -> None:
    name = new_name()
    invited = site.service.cli("node", "enroll", name)
    assert invited["command"] == f"myna node join {site.service.root_url} {invited['token']}"
    assert "only on this machine" in invited["note"], "the service of the test listens on the loopback"
    joined = site.join(invited["token"]).json
    assert joined["name"] == name
    assert NodeClient(site.service, name, joined["credential"]).hello(new_voice())["name"] == name


def test_unknown_used_expired_and_replaced_tokens_get_the_same_refusal(site: NodeSite) -> None:
    used, old_name, name = site.token(), new_name(), new_name()
    site.join(used)
    old, replaced, second = site.token(old_name), site.token(name), site.token(name)
    site.sql("UPDATE nodes SET token_until = now_ms() - 1 WHERE name = $1", old_name)
    for token in (used, old, replaced, "mynajoin_" + "0" * 40, "", "mynajoin_", "x" * 200):
        assert refusal(site.join(token)) == REFUSED
    assert site.join(second).status == 200


def test_a_token_is_valid_for_an_hour(site: NodeSite) -> None:
    name = new_name()
    token = site.token(name)
    ((left_ms,),) = site.sql("SELECT token_until - now_ms() FROM nodes WHERE name = $1", name)
    assert 3_590_000 < left_ms <= 3_600_000
    site.sql("UPDATE nodes SET token_until = now_ms() + 5000 WHERE name = $1", name)
    assert site.join(token).status == 200


def test_of_many_joins_with_one_token_one_succeeds(site: NodeSite) -> None:
    token = site.token()
    with ThreadPoolExecutor(8) as pool:
        statuses = sorted(answer.status for answer in pool.map(site.join, [token] * 8))
    assert statuses == [200, *[401] * 7]


def test_neither_token_nor_credential_is_stored(site: NodeSite) -> None:
    name = new_name()
    token = site.token(name)
    before = site.sql("SELECT * FROM nodes WHERE name = $1", name)
    credential = site.join(token).json["credential"]
    stored = repr([before, site.sql("SELECT * FROM nodes WHERE name = $1", name)])
    assert token.removeprefix("mynajoin_") not in stored
    assert credential.removeprefix("mynanode_") not in stored


def test_a_credential_is_valid_until_its_node_joins_again(site: NodeSite) -> None:
    node = site.node(new_voice())
    refused = site.service.command("node", "enroll", node.name)
    assert refused.code == 1
    assert "--again" in refused.stderr
    token = site.token(node.name, "--again")
    assert beat(site, node.credential).status == 200
    replaced = site.join(token).json["credential"]
    assert "joined again" in refusal(beat(site, node.credential))
    assert beat(site, replaced).status == 200


def test_a_credential_is_for_the_farm_and_a_key_for_v1(site: NodeSite, key: str) -> None:
    node = site.node(new_voice())
    for method, path in (("GET", "me"), ("GET", "voices"), ("POST", "tts"), ("GET", "records")):
        refusal(call(method, f"{site.service.base_url}/{path}", key=node.credential, data={}))
    for what in ("hello", "lease", "beat", "complete", "fail"):
        refusal(call("POST", site.url(what), key=key, data={}, headers=HEADERS))
    refusal(call("GET", site.url("reference"), key=key, headers=HEADERS))


@pytest.mark.parametrize("authorization", [None, "Basic {}", "Bearer {}x", "Bearer mynajoin_{}"])
def test_an_invalid_credential_is_refused(site: NodeSite, authorization: str | None) -> None:
    credential = site.node().credential
    headers = dict(HEADERS)
    if authorization is not None:
        headers["Authorization"] = authorization.format(credential)
    answer = call("POST", site.url("beat"), data={"beats": []}, headers=headers)
    refusal(answer)
    assert answer.headers["www-authenticate"] == "Bearer"


@pytest.mark.parametrize(
    ("what", "spoken"),
    [
        ("lease", {}),
        ("join", {"Myna-Farm": "0"}),
        ("complete", {"Myna-Farm": "2"}),
        ("fail", {"Myna-Farm": "one"}),
    ],
)
def test_another_protocol_version_is_426_before_any_other_check(
    site: NodeSite, what: str, spoken: dict[str, str]
) -> None:
    answer = call("POST", site.url(what), data={}, headers=spoken)
    message = refusal(answer, 426)
    assert message.count(".") == 1
    assert message.endswith("install the same version of Myna on both.")
    assert answer.headers["upgrade"] == "myna-farm/1"


def test_a_disabled_node_is_refused_until_it_is_enabled(site: NodeSite) -> None:
    node = site.node(new_voice())
    site.service.cli("node", "disable", node.name)
    for what in ("hello", "lease", "beat", "complete", "fail"):
        assert "disabled" in refusal(node.ask(what, {}))
    site.service.cli("node", "enable", node.name)
    node.hello(new_voice())


def test_a_removed_node_is_refused_and_its_name_can_be_reused(site: NodeSite) -> None:
    node = site.node(new_voice())
    site.service.cli("node", "remove", node.name)
    assert "removed" in refusal(beat(site, node.credential))
    assert node.name not in {row["name"] for row in site.service.cli("node", "list")}
    assert site.join(site.token(node.name)).status == 200


@pytest.mark.parametrize("verb", ["disable", "remove"])
def test_a_command_for_an_unknown_node_is_refused(site: NodeSite, verb: str) -> None:
    ended = site.service.command("node", verb, "nobody")
    database, refusal = ended.stderr.splitlines()
    assert (ended.code, refusal) == (1, "myna: There is no node 'nobody'.")
    assert database.startswith("myna: database: ")


def test_the_list_shows_the_state_of_each_node(site: NodeSite) -> None:
    name, voice = new_name(), new_voice()
    token = site.token(name)
    node = NodeClient(site.service, name, "")
    assert (node.listed["state"], node.listed["heard_at"]) == ("invited", 0)
    node = NodeClient(site.service, name, site.join(token).json["credential"])
    assert node.listed["state"] == "offline"
    node.hello(voice, clones=["zh", "en"], slots=3, chars_per_s=41.26, version="9.9")
    listed = node.listed
    assert listed.pop("heard_at") > 1_700_000_000
    speaks = {"voices": [voice], "clones": ["en", "zh"], "chars_per_s": 41.3, "version": "9.9"}
    works = {"name": name, "state": "online", "slots": 3, "jobs": 0, "cooldown_until": 0}
    assert listed == works | speaks
    site.service.cli("node", "drain", name)
    assert node.listed["state"] == "draining"
    site.service.cli("node", "disable", name)
    assert node.listed["state"] == "disabled"
    site.service.cli("node", "enable", name)
    assert node.listed["state"] == "online"
    site.sql("UPDATE nodes SET heard_at = heard_at - 41000 WHERE name = $1", name)
    assert node.listed["state"] == "offline"


def test_the_list_shows_a_nodes_cooldown_until_it_has_passed_and_the_number_of_voices(site: NodeSite) -> None:
    node = site.node(*(new_voice() for _ in range(3)))
    rows = site.sql(
        "UPDATE nodes SET rests_until = now_ms() + 600000 WHERE name = $1 RETURNING rests_until", node.name
    )
    assert node.listed["cooldown_until"] == rows[0][0] // 1000
    site.sql("UPDATE nodes SET rests_until = now_ms() - 1 WHERE name = $1", node.name)
    assert node.listed["cooldown_until"] == 0
    table = site.service.command("node", "list").stdout.splitlines()
    (row,) = (line for line in table if line.split()[0] == node.name)
    assert row.split()[1:5] == ["online", "2", "0", "3"]  # the number of voices, not their names
    assert row.rstrip().endswith("never")


def test_a_join_has_a_small_body_of_known_length(site: NodeSite) -> None:
    assert call("POST", site.url("join"), body=b" " * 5000, headers=HEADERS).status == 413
    assert call("POST", site.url("join"), body=iter([b"{}"]), headers=HEADERS).status == 413
    assert call("POST", site.url("join"), body=b"{", headers=HEADERS).status == 400
    assert call("GET", site.url("join"), headers=HEADERS).status == 405
    assert call("POST", site.url("nothing"), headers=HEADERS).status == 404


def test_tokens_and_credentials_are_never_logged_or_repeated(site: NodeSite) -> None:
    token = site.token()
    node = site.node(new_voice())
    secrets = (token, node.credential)
    for secret in secrets:
        call("GET", f"{site.service.root_url}{PREFIX}/{secret}")
        call(
            "POST",
            site.url("beat"),
            key=secret,
            body=secret.encode(),
            headers=HEADERS | {"X-Request-Id": secret},
        )
        answer = call("GET", site.url(f"reference?sha256={secret}"), key=node.credential, headers=HEADERS)
        assert secret not in f"{answer.headers}{answer.body!r}"
    metrics = call("GET", f"{site.service.root_url}/metrics").body.decode()
    for secret in secrets:
        assert secret not in site.service.stderr
        assert secret not in metrics


@pytest.mark.parametrize("name", [" ", "a" * 101, "a\x1b[2J"])
def test_a_node_name_must_be_printable(site: NodeSite, name: str) -> None:
    assert site.service.command("node", "enroll", name).code == 1

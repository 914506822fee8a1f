"""How a machine becomes a compute node, and how it ceases to be one."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from myna.wire.farm import PREFIX
from tests.farm.machines import SPOKEN, Machine, Yard, new_name, new_voice
from tests.rig.calls import Answer, call
from tests.rig.service import Account

REFUSED = "This join token is unknown, used or older than an hour; ask the operator for a new one."


@pytest.fixture(scope="session")
def account(yard: Yard) -> Account:
    return yard.service.account()


def refusal(answer: Answer, status: int = 401) -> str:
    assert answer.status == status, answer
    error = answer.json["error"]
    assert error["code"] == status
    return str(error["message"])


def knock(yard: Yard, credential: str) -> Answer:
    """The cheapest thing a node may ask."""
    return call("POST", yard.url("beat"), key=credential, data={"beats": []}, headers=SPOKEN)


def test_a_token_lets_a_machine_in_under_the_name_that_the_operator_chose(yard: Yard) -> None:
    name = new_name()
    invited = yard.service.cli("node", "enroll", name)
    assert invited["command"] == f"myna node join {yard.service.root_url} {invited['token']}"
    assert "only on this machine" in invited["note"], "the service of a test is on the loopback"
    joined = yard.join(invited["token"]).json
    assert joined["name"] == name
    assert Machine(yard.service, name, joined["credential"]).hello(new_voice())["name"] == name


def test_unknown_used_and_old_tokens_are_refused_in_the_same_words(yard: Yard) -> None:
    used, old_name = yard.token(), new_name()
    yard.join(used)
    old = yard.token(old_name)
    yard.sql("UPDATE nodes SET token_until = now_ms() - 1 WHERE name = $1", old_name)
    for token in (used, old, "mynajoin_" + "0" * 40, "", "mynajoin_", "x" * 200):
        assert refusal(yard.join(token)) == REFUSED


def test_a_token_is_good_for_an_hour(yard: Yard) -> None:
    name = new_name()
    token = yard.token(name)
    ((left_ms,),) = yard.sql("SELECT token_until - now_ms() FROM nodes WHERE name = $1", name)
    assert 3_590_000 < left_ms <= 3_600_000
    yard.sql("UPDATE nodes SET token_until = now_ms() + 5000 WHERE name = $1", name)
    assert yard.join(token).status == 200


def test_of_many_machines_with_one_token_one_gets_in(yard: Yard) -> None:
    token = yard.token()
    with ThreadPoolExecutor(8) as pool:
        statuses = sorted(answer.status for answer in pool.map(yard.join, [token] * 8))
    assert statuses == [200, *[401] * 7]


def test_neither_token_nor_credential_is_stored(yard: Yard) -> None:
    name = new_name()
    token = yard.token(name)
    before = yard.sql("SELECT * FROM nodes WHERE name = $1", name)
    credential = yard.join(token).json["credential"]
    stored = repr([before, yard.sql("SELECT * FROM nodes WHERE name = $1", name)])
    assert token.removeprefix("mynajoin_") not in stored
    assert credential.removeprefix("mynanode_") not in stored


def test_a_second_token_before_the_join_voids_the_first(yard: Yard) -> None:
    name = new_name()
    first, second = yard.token(name), yard.token(name)
    assert refusal(yard.join(first)) == REFUSED
    assert yard.join(second).status == 200


def test_a_node_that_joined_keeps_its_credential_until_a_token_made_again_is_used(yard: Yard) -> None:
    machine = yard.machine(new_voice())
    refused = yard.service.command("node", "enroll", machine.name)
    assert refused.code == 1
    assert "--again" in refused.stderr
    token = yard.token(machine.name, "--again")
    assert knock(yard, machine.credential).status == 200
    replaced = yard.join(token).json["credential"]
    assert "joined again" in refusal(knock(yard, machine.credential))
    assert knock(yard, replaced).status == 200


def test_a_credential_opens_the_farm_alone_and_a_key_opens_none_of_it(yard: Yard, account: Account) -> None:
    machine, key = yard.machine(new_voice()), account.key().plain
    for method, path in (("GET", "me"), ("GET", "voices"), ("POST", "tts"), ("GET", "records")):
        refusal(call(method, f"{yard.service.base_url}/{path}", key=machine.credential, data={}))
    for what in ("hello", "lease", "beat", "complete", "fail"):
        refusal(call("POST", yard.url(what), key=key, data={}, headers=SPOKEN))
    refusal(call("GET", yard.url("reference"), key=key, headers=SPOKEN))


@pytest.mark.parametrize(
    "authorization",
    [None, "", "Bearer", "Bearer mynanode_x", "Basic {}", "Bearer {}x", "Bearer  mynajoin_{}"],
)
def test_what_is_no_credential_is_refused(yard: Yard, authorization: str | None) -> None:
    credential = yard.machine().credential
    headers = dict(SPOKEN)
    if authorization is not None:
        headers["Authorization"] = authorization.format(credential)
    answer = call("POST", yard.url("beat"), data={"beats": []}, headers=headers)
    refusal(answer)
    assert answer.headers["www-authenticate"] == "Bearer"


@pytest.mark.parametrize("spoken", [{}, {"Myna-Farm": "0"}, {"Myna-Farm": "2"}, {"Myna-Farm": "one"}])
@pytest.mark.parametrize("what", ["join", "hello", "lease", "beat", "complete", "fail"])
def test_another_protocol_is_told_so_before_anything_else(
    yard: Yard, what: str, spoken: dict[str, str]
) -> None:
    answer = call("POST", yard.url(what), data={}, headers=spoken)
    message = refusal(answer, 426)
    assert message.count(".") == 1
    assert message.endswith("install the same version of Myna on both.")
    assert answer.headers["upgrade"] == "myna-farm/1"


def test_a_disabled_node_is_refused_until_it_is_enabled(yard: Yard) -> None:
    machine = yard.machine(new_voice())
    yard.service.cli("node", "disable", machine.name)
    for what in ("hello", "lease", "beat", "complete", "fail"):
        assert "disabled" in refusal(machine.ask(what, {}))
    yard.service.cli("node", "enable", machine.name)
    machine.hello(new_voice())


def test_a_removed_node_is_unknown_and_its_name_free(yard: Yard) -> None:
    machine = yard.machine(new_voice())
    yard.service.cli("node", "remove", machine.name)
    assert "removed" in refusal(knock(yard, machine.credential))
    assert machine.name not in {row["name"] for row in yard.service.cli("node", "list")}
    assert yard.join(yard.token(machine.name)).status == 200


@pytest.mark.parametrize("name", ["", " ", "a" * 101, "a\nb", "a\x1b[2J"])
def test_a_node_wants_a_name_that_can_be_printed(yard: Yard, name: str) -> None:
    assert yard.service.command("node", "enroll", name).code == 1


@pytest.mark.parametrize("verb", ["disable", "enable", "drain", "remove"])
def test_a_node_that_is_not_there_is_told_so(yard: Yard, verb: str) -> None:
    ended = yard.service.command("node", verb, "nobody")
    database, refusal = ended.stderr.splitlines()
    assert (ended.code, refusal) == (1, "myna: There is no node 'nobody'.")
    assert database.startswith("myna: database: ")


def test_the_list_shows_how_each_node_stands(yard: Yard) -> None:
    name, voice = new_name(), new_voice()
    token = yard.token(name)
    machine = Machine(yard.service, name, "")
    assert machine.listed["state"] == "invited"
    assert machine.listed["heard_at"] == 0
    machine = Machine(yard.service, name, yard.join(token).json["credential"])
    assert machine.listed["state"] == "offline"
    machine.hello(voice, clones=["zh", "en"], slots=3, chars_per_s=41.26, version="9.9")
    listed = machine.listed
    assert listed.pop("heard_at") > 1_700_000_000
    assert listed == {
        "name": name,
        "state": "online",
        "slots": 3,
        "jobs": 0,
        "voices": [voice],
        "clones": ["en", "zh"],
        "chars_per_s": 41.3,
        "version": "9.9",
    }
    yard.service.cli("node", "drain", name)
    assert machine.listed["state"] == "draining"
    yard.service.cli("node", "disable", name)
    assert machine.listed["state"] == "disabled"
    yard.service.cli("node", "enable", name)
    assert machine.listed["state"] == "online"
    yard.sql("UPDATE nodes SET heard_at = heard_at - 41000 WHERE name = $1", name)
    assert machine.listed["state"] == "offline"


def test_people_see_how_many_voices_a_node_has(yard: Yard) -> None:
    machine = yard.machine(*(new_voice() for _ in range(3)))
    (line,) = [
        line.split()
        for line in yard.service.command("node", "list").stdout.splitlines()
        if machine.name in line
    ]
    assert line[:5] == [machine.name, "online", "2", "0", "3"]


def test_a_stranger_says_little_and_says_it_whole(yard: Yard) -> None:
    assert call("POST", yard.url("join"), body=b" " * 5000, headers=SPOKEN).status == 413
    assert call("POST", yard.url("join"), body=iter([b"{}"]), headers=SPOKEN).status == 413
    assert call("POST", yard.url("join"), body=b"{", headers=SPOKEN).status == 400
    assert call("GET", yard.url("join"), headers=SPOKEN).status == 405
    assert call("POST", yard.url("nothing"), headers=SPOKEN).status == 404


def test_tokens_and_credentials_are_in_no_log_wherever_they_were_put(yard: Yard) -> None:
    token = yard.token()
    machine = yard.machine(new_voice())
    secrets = (token, machine.credential)
    for secret in secrets:
        call("GET", f"{yard.service.root_url}{PREFIX}/{secret}")
        call(
            "POST",
            yard.url("beat"),
            key=secret,
            body=secret.encode(),
            headers=SPOKEN | {"X-Request-Id": secret},
        )
        answer = call("GET", yard.url(f"reference?sha256={secret}"), key=machine.credential, headers=SPOKEN)
        assert secret not in f"{answer.headers}{answer.body!r}"
    metrics = call("GET", f"{yard.service.root_url}/metrics").body.decode()
    for secret in secrets:
        assert secret not in yard.service.stderr
        assert secret not in metrics

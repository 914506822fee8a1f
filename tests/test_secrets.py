"""No secret appears in a log, a metric, an answer or the output of a command, even on failures."""

import contextlib
import hashlib
import http.client
import json

from tests.rig.calls import Answer, Wire, call
from tests.rig.postgres import Postgres
from tests.rig.service import Service, ServiceMaker
from tests.rig.upstream import SECRET, Upstream
from tests.rig.waiting import wait_until

DATABASE_PASSWORD = "db-w0rd-71c4"
LOGIN_PASSWORD = "login-w0rd-93ad"
FAULTS = ["status:401", "status:500", "redirect", "not-chat", "broken", "close", "garbage", "empty"]


def chat(service: Service, key: str, text: str, **headers: str) -> Answer:
    data = {"model": "svc-chat", "messages": [{"role": "user", "content": text}]}
    return call("POST", f"{service.base_url}/chat/completions", key=key, data=data, headers=headers)


def misplaced(service: Service, key: str) -> list[Answer]:
    """The key everywhere but where it belongs."""
    root, base = service.root_url, service.base_url
    answers = [
        call("GET", f"{base}/me/{key}"),
        call("GET", f"{root}/{key.upper()}"),
        call("GET", f"{root}/uploads/{key}"),
        call("GET", f"{base}/me?api_key={key}"),
        call("GET", f"{base}/records?limit={key}", key=key),
        call("GET", f"{base}/task?id={key}", key=key),
        call("GET", f"{base}/records?{'a' * 40}=1&{'a' * 40}=2", key=key),
        call("GET", f"{base}/me", headers={"Authorization": f"Basic {key}"}),
        call("GET", f"{base}/me", headers={"Authorization": f"Bearer {key}x"}),
        call("GET", f"{base}/me", headers={"X-Request-Id": key}),
        call("POST", f"{base}/me", key=key, body=key.encode()),
        call("POST", f"{base}/tts", key=key, body=key.encode()),
    ]
    for line in (f"GET /{key}\r\n\r\n", f"{key}\r\n\r\n", f"GET /{key} HTTP/1.1\r\n{key} : x\r\n\r\n"):
        with Wire(root) as wire:
            wire.send(line.encode())
            answers.append(wire.answer("GET"))
    return answers


def heard(service: Service, answers: list[Answer]) -> str:
    said = [f"{answer.headers} {answer.body!r}" for answer in answers]
    said.append(call("GET", f"{service.root_url}/metrics").body.decode())
    said.append(call("GET", f"{service.root_url}/readyz").body.decode())
    for command in (("channel", "list"), ("settings", "list"), ("channel", "test", "default"), ("audit",)):
        ended = service.command(*command)
        said.append(ended.stdout + ended.stderr)
    return "\n".join(said)


def without_the_database(service: Service, key: str) -> list[Answer]:
    """Answers of every endpoint while the database is unavailable."""
    answers = [call("GET", f"{service.base_url}/{name}", key=key) for name in ("me", "voices", "records")]
    with contextlib.suppress(
        ConnectionError, http.client.HTTPException
    ):  # a closed connection without an answer contains no secret
        answers.append(chat(service, key, "hello"))
    return answers


def test_no_secret_is_in_any_output_whatever_fails(
    make_service: ServiceMaker, postgres: Postgres, upstream: Upstream
) -> None:
    plain = postgres.fresh_database()
    chat_url = upstream.url.replace("://", f"://user:{LOGIN_PASSWORD}@")
    service = make_service(
        database_url=plain.replace("postgres@", f"postgres:{DATABASE_PASSWORD}@"),
        chat_url=chat_url,
        chat_key=upstream.key,
        speech=chat_url,
        env={"MYNA_SPEECH_KEY": SECRET, "MYNA_CHARGE_WAIT_S": "1", "MYNA_LOG_LEVEL": "debug"},
    ).start()
    keys = [service.account().key().plain for _ in range(2)]
    answers = misplaced(service, keys[0])
    for fault in FAULTS:
        answers.append(chat(service, keys[0], f"fault={fault}", **{"Idempotency-Key": f"same-{fault}"}))
        upstream.behave(fault)
        answers.append(call("POST", f"{service.base_url}/tts", key=keys[0], data={"text": "hello"}))
    upstream.behave()
    service.cli("key", "revoke", "2")
    answers.append(chat(service, keys[1], "hello"))
    said = heard(service, answers)
    postgres.drop(plain)
    said += heard(service, without_the_database(service, keys[0]))
    call("GET", f"{service.root_url}/the-end")
    wait_until(lambda: "/the-end" in service.stderr, 60, "the log is written")
    service.kill()  # without a database, a stop would wait for it
    said += service.stderr + service.stdout
    assert len(said) > 20_000
    for secret in (SECRET, DATABASE_PASSWORD, LOGIN_PASSWORD, *keys, *(key.upper() for key in keys)):
        assert secret not in said


def test_an_idempotency_key_is_stored_as_a_hash_only(make_service: ServiceMaker) -> None:
    service = make_service(chat_url="parrot:", speech="none").start()
    account = service.account(units=5)
    key = account.key().plain
    sent = (key, key[5:], "sk-proj-abcdefghijklmnopqrstuvwxyz", "caf\xe9" * 20)
    for value in sent:
        answers = [chat(service, key, "hello", **{"Idempotency-Key": value}) for _ in range(2)]
        assert [answer.status for answer in answers] == [200, 200]
        assert answers[0].body == answers[1].body
    assert service.cli("account", "show", account.name)["balance"] == 1
    assert service.stop() == 0
    files = [path for path in (service.folder / "data").rglob("*") if path.is_file()]
    stored = b"".join(path.read_bytes() for path in files)
    for value in sent:
        assert hashlib.sha256(value.encode("latin-1")).hexdigest().encode() in stored
        assert value.encode("latin-1") not in stored and value.encode() not in stored
        assert value not in service.stderr + service.stdout


def test_every_line_of_the_log_is_json_whatever_callers_send(make_service: ServiceMaker) -> None:
    service = make_service(chat_url="parrot:", speech="none").start()
    for path in ("/%0a%7b%22level%22:%22forged%22%7d", "/%1b%5b2J", "/%E2%80%A8", "/%FF", "/" + "x" * 3000):
        assert call("GET", service.root_url + path).status == 404
    wait_until(lambda: service.stderr.count('"status":404') == 5, 60, "the lines are written")
    assert service.stop() == 0
    levels = [line["level"] for line in service_lines(service)]
    assert set(levels) <= {"info", "warning"}


def service_lines(service: Service) -> list[dict[str, str]]:
    return [json.loads(line) for line in service.log_lines if line]

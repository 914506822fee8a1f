"""Logs: one JSON object per line, for any text of a caller or an error."""

import asyncio
import contextlib
import errno
import hashlib
import http.client
import json
import logging
import os
import re
from pathlib import Path

import pytest

from myna.actions.channels import SetChannelKey
from myna.actions.codes import RedeemCode
from myna.lib.telemetry import logs
from myna.lib.telemetry.logs import JsonFormatter, LogWriter, masked
from myna.server import service
from myna.settings import load
from tests.rig.calls import Answer, Wire, call
from tests.rig.postgres import Postgres
from tests.rig.service import Service, ServiceMaker
from tests.rig.upstream import SECRET, Upstream
from tests.rig.waiting import wait_until

KEY = "myna_" + "0123456789abcdef0123456789abcdef01234567"


def formatted(message: str, *args: object, error: BaseException | None = None) -> dict[str, str]:
    info = (type(error), error, error.__traceback__) if error else None
    record = logging.LogRecord("myna.x", logging.WARNING, "f", 1, message, args, info)
    line = JsonFormatter().format(record)
    assert "\n" not in line
    found: dict[str, str] = json.loads(line)
    return found


def test_a_line_has_time_level_logger_and_message() -> None:
    line = formatted("%d calls", 3)
    assert set(line) == {"time", "level", "logger", "message"}
    assert (line["level"], line["logger"], line["message"]) == ("warning", "myna.x", "3 calls")
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", line["time"])


def test_a_line_that_belongs_to_a_request_has_its_id() -> None:
    token = logs.request_id.set("an-id")
    try:
        assert formatted("x")["request_id"] == "an-id"
    finally:
        logs.request_id.reset(token)


def test_an_exception_with_line_breaks_is_one_line() -> None:
    try:
        raise ValueError('two\nlines"} {"level": "info')
    except ValueError as error:
        line = formatted("a\nb\u2028c", error=error)
    assert line["message"] == "a\nb\u2028c"
    assert "Traceback" in line["error"]


def test_keys_and_logins_are_masked_in_every_field() -> None:
    url = "postgresql://user:word@host:5432/db"
    try:
        raise ValueError(f"{url} {KEY}")
    except ValueError as error:
        line = formatted("%s and %s", KEY, url, error=error)
    text = json.dumps(line)
    assert KEY not in text
    assert "word@" not in text
    assert "postgresql://***@host:5432/db" in line["message"]
    assert "myna_012345***" in line["message"]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (KEY, "myna_012345***"),
        (KEY.upper(), "MYNA_012345***"),
        (f"/v1/{KEY}/x", "/v1/myna_012345***/x"),
        (KEY[:30], "myna_012345***"),
        (KEY.replace("_", "node_"), "mynanode_012345***"),
        (KEY.replace("_", "join_"), "mynajoin_012345***"),
        ("http://h/a@b", "http://h/a@b"),
        ("http://u@h", "http://***@h"),
        ("myna_serve", "myna_serve"),
    ],
)
def test_what_is_masked(text: str, shown: str) -> None:
    assert masked(text) == shown


def test_a_line_cut_by_a_full_disk_corrupts_no_later(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    put, room = os.write, [3]

    def little_room(descriptor: int, data: bytes) -> int:
        if not room:
            return put(descriptor, data)
        left = room.pop()
        if not left:
            raise OSError(errno.ENOSPC, "No space left on device")
        room.append(0)
        return put(descriptor, data[:left])

    with (tmp_path / "log").open("wb") as file:
        writer = LogWriter(file.fileno())
        monkeypatch.setattr(os, "write", little_room)
        writer.write(b'{"a": 1}\n')
        writer.write(b'{"b": 2}\n')
        writer.flush()
    broken, dropped, whole = (tmp_path / "log").read_text().splitlines()
    assert broken == '{"a'
    assert json.loads(dropped)["message"].startswith("1 lines of the log were dropped")
    assert json.loads(whole) == {"b": 2}


def test_a_process_without_stderr_can_log() -> None:
    writer = LogWriter(None)
    writer.write(b"{}\n")
    writer.flush()


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
    levels = [json.loads(line)["level"] for line in service.log_lines if line]
    assert set(levels) <= {"info", "warning"}


def test_an_action_shows_no_value() -> None:
    for action in (SetChannelKey(name="a", key="sk-1"), RedeemCode(account="a", code="ABCDE")):
        assert repr(action) == f"{type(action).__name__}(…)"


def test_no_part_of_a_service_shows_a_secret(tmp_path: Path) -> None:
    """Records of other libraries show objects: the event loop's show what a callback is a method of."""
    secrets = {
        f"MYNA_{name}": f"{SECRET}-{name.lower()}" for name in ("METRICS_TOKEN", "CHAT_KEY", "SECRET_KEY")
    }
    environ = {"MYNA_DATA": str(tmp_path), "MYNA_SPEECH": "none", **secrets}

    async def shown() -> str:
        async with service.Service.running(load(environ)[0], environ) as running:
            parts = {name: part for name, part in vars(running).items() if name != "environ"}
            return repr((running, parts, running.routes(), running.other_routes()))

    assert SECRET not in asyncio.run(shown())

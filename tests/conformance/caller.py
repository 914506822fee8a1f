"""A caller of the service, and the checks of every answer."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from http import HTTPStatus
from typing import Any

from tests.rig.calls import Answer, call
from tests.rig.service import Account, Key, Service
from tests.rig.upstream import SECRET
from tests.rig.waiting import wait_until

COPY_WAIT_S = 60
"""How long the copy of the metrics may be out of date."""
ERROR_TYPES = {status: {"invalid_request_error"} for status in (400, 405, 413, 415, 416, 426)} | {
    401: {"authentication_error"},
    402: {"insufficient_quota"},
    403: {"permission_error"},
    404: {"not_found_error"},
    409: {"conflict_error"},
    429: {"rate_limit_error"},
    500: {"upstream_error", "server_error"},
    503: {"service_unavailable"},
}

ERROR = {"error": {"message": str, "type": str, "code": int}}


@dataclass(frozen=True)
class Stats:
    """The three counters of GET /me."""

    calls: int
    cost: int
    ok_calls: int

    def __sub__(self, earlier: "Stats") -> "Stats":
        return Stats(self.calls - earlier.calls, self.cost - earlier.cost, self.ok_calls - earlier.ok_calls)


DELIVERED = Stats(calls=1, cost=1, ok_calls=1)
REFUNDED = Stats(calls=1, cost=0, ok_calls=0)
UNCHARGED = Stats(calls=0, cost=0, ok_calls=0)


@dataclass(frozen=True)
class Caller:
    """One key of one service. Every answer is checked with `check`."""

    service: Service
    account: Account
    key: Key

    def get(self, path: str, **parameters: Any) -> Answer:
        return self.send("GET", path, **parameters)

    def post(self, path: str, data: Any = None, **parameters: Any) -> Answer:
        return self.send("POST", path, data=data, **parameters)

    def send(self, method: str, path: str, **parameters: Any) -> Answer:
        parameters.setdefault("key", self.key.plain)
        answer = call(method, self.service.base_url + path, **parameters)
        check(answer)
        assert self.key.plain.encode() not in answer.body
        return answer

    def chat(self, text: str, headers: Mapping[str, str] | None = None, **fields: Any) -> Answer:
        """Sends one user message. `fields` are further fields of the body."""
        messages = [{"role": "user", "content": text}]
        return self.post(
            "/chat/completions", {"model": "svc-chat", "messages": messages} | fields, headers=headers
        )

    def speak(self, text: str, headers: Mapping[str, str] | None = None, **fields: Any) -> Answer:
        return self.post("/tts", {"text": text} | fields, headers=headers)

    def stats(self) -> Stats:
        return Stats(**self.get("/me").json["stats"])

    def balance(self) -> int:
        return int(self.service.cli("account", "show", self.account.name)["balance"])

    def voice_ids(self) -> list[str]:
        return [voice["voice_id"] for voice in self.get("/voices").json["data"]]

    def wait_for_voices(self) -> None:
        """Waits until the service has read its speech upstream's voices, which it does after the start."""
        wait_until(lambda: self.voice_ids() != [], 60, "voices are listed")

    def at(self, service: Service) -> "Caller":
        """The same key at another process."""
        return replace(self, service=service)


def make_caller(service: Service, *, units: int = 1000, **parameters: Any) -> Caller:
    """Makes an account and a key of it. `parameters` go to `Account.key`."""
    account = service.account(units=units)
    return Caller(service, account, account.key(**parameters))


def check(answer: Answer) -> None:
    """Checks what is true for every answer below the base path: request id, content type, error envelope."""
    assert answer.headers.get("x-request-id"), answer
    assert answer.headers["content-type"].split(";")[0] == "application/json", answer
    if answer.status != HTTPStatus.OK:
        check_error(answer, answer.status)


def check_error(answer: Answer, status: int, kind: str | None = None) -> str:
    """Checks that the answer is this error, in the envelope, without secrets. Returns its message."""
    assert answer.status == status, answer
    assert_shape(answer.json, ERROR)
    error = answer.json["error"]
    assert error["code"] == status
    assert error["type"] in ({kind} if kind else ERROR_TYPES[status]), error
    message = str(error["message"])
    assert message.strip()
    assert not re.search(r"myna_[0-9a-f]{40}|Traceback|127\.0\.0\.1|\.py\b", message), message
    assert SECRET not in message
    return message


def assert_shape(value: Any, shape: Any, where: str = "answer") -> None:
    """Checks that `value` has exactly the keys and types of `shape`. A bool is no int, None is no str.

    A shape is a type, a dict of shapes, or a list with the one shape of its items.
    """
    if isinstance(shape, dict):
        assert type(value) is dict, f"{where} is {value!r}"
        assert set(value) == set(shape), f"{where} has {sorted(value)}, not {sorted(shape)}"
        for name, part in shape.items():
            assert_shape(value[name], part, f"{where}.{name}")
    elif isinstance(shape, list):
        assert type(value) is list, f"{where} is {value!r}"
        for number, item in enumerate(value):
            assert_shape(item, shape[0], f"{where}[{number}]")
    else:
        assert type(value) is shape, f"{where} is {value!r}, not {shape.__name__}"

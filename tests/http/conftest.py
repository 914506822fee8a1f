"""One service process, shared by all tests that do not stop it."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from tests.rig.calls import Answer, Wire
from tests.rig.service import RunningService, Service
from tests.rig.waiting import wait_until

ANSWER_WAIT_S = 60


@dataclass(frozen=True)
class Edge:
    """A running service and a key with every scope."""

    service: Service
    key: str

    def wire(self) -> Wire:
        return Wire(self.service.root_url, deadline_s=ANSWER_WAIT_S)

    @property
    def bearer(self) -> str:
        return f"Authorization: Bearer {self.key}"


@pytest.fixture(scope="session")
def edge(running_service: RunningService) -> Iterator[Edge]:
    with running_service() as service:
        yield Edge(service, service.account().key().plain)


def line_of(service: Service, answer: Answer) -> dict[str, Any]:
    """Waits for the line of the access log with the request id of this answer."""
    found: list[dict[str, Any]] = []

    def written() -> bool:
        records = [json.loads(line) for line in service.log_lines if '"logger":"access"' in line]
        found[:] = [one for one in records if one["request_id"] == answer.headers["x-request-id"]]
        return bool(found)

    wait_until(written, ANSWER_WAIT_S, "the access log has the request")
    (line,) = found
    return line

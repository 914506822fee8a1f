"""Hundreds of open polls: what they cost, and how many a node and an address may have."""

import contextlib
import hashlib
import os
import secrets
import time
from collections.abc import Iterator

import pytest

from myna.api.farm import concurrency as in_flight
from myna.wire.farm import PREFIX
from tests.farm.machines import Yard
from tests.rig import processes
from tests.rig.calls import Wire, call
from tests.rig.waiting import wait_until

POLLS = 400
WATCHED_S = 3.0
BODY = b'{"jobs": 1, "wait_s": 25}'
HEALTHY_S = 20


@contextlib.contextmanager
def open_polls(yard: Yard, credentials: list[str]) -> Iterator[list[Wire]]:
    with contextlib.ExitStack() as stack:
        wires = []
        for credential in credentials:
            wire = stack.enter_context(Wire(yard.service.root_url))
            wire.head(
                f"POST {PREFIX}/lease HTTP/1.1",
                f"Authorization: Bearer {credential}",
                "Myna-Farm: 1",
                f"Content-Length: {len(BODY)}",
            )
            wire.send(BODY)
            wires.append(wire)
        yield wires


def joined(yard: Yard, number: int) -> list[str]:
    """The credentials of so many nodes, without a command for each."""
    credentials = ["mynanode_" + secrets.token_hex(20) for _ in range(number)]
    rows = ", ".join(
        f"('many-{secrets.token_hex(4)}-{n}', {blob(yard, credential)}, 1, 1, 1, 1)"
        for n, credential in enumerate(credentials)
    )
    columns = "name, credential_hash, slots, heard_at, joined_at, created_at"
    yard.sql(f"INSERT INTO nodes ({columns}) VALUES {rows}")
    return credentials


def blob(yard: Yard, credential: str) -> str:
    digest = hashlib.sha256(credential.encode()).hexdigest()
    return f"'\\x{digest}'" if yard.service.env.get("MYNA_DATABASE_URL") else f"x'{digest}'"


def cpu_s(pid: int) -> float:
    """What the process has computed so far."""
    fields = processes.told(pid, "stat").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def spent_s(yard: Yard) -> float:
    before = cpu_s(yard.service.pid)
    time.sleep(WATCHED_S)
    return cpu_s(yard.service.pid) - before


def test_hundreds_of_open_polls_cost_next_to_nothing(yard: Yard) -> None:
    credentials = joined(yard, POLLS)
    alone_s = spent_s(yard)
    with open_polls(yard, credentials):
        heard = "SELECT count(*) FROM nodes WHERE name LIKE 'many-%' AND heard_at > 1"
        wait_until(lambda: yard.sql(heard)[0][0] >= POLLS, 60, "all polls have begun", every_s=0.2)
        assert spent_s(yard) - alone_s < WATCHED_S / 4
        began_s = time.monotonic()
        assert call("GET", f"{yard.service.root_url}/healthz").status == 200
        assert time.monotonic() - began_s < HEALTHY_S
    yard.sql("DELETE FROM nodes WHERE name LIKE 'many-%'")


@pytest.mark.parametrize("who", ["node", "address"])
def test_a_node_and_an_address_have_a_bounded_number_of_requests_open(yard: Yard, who: str) -> None:
    most = in_flight.PER_NODE_MAX if who == "node" else in_flight.PER_ADDRESS_MAX
    credential = yard.machine().credential
    others = joined(yard, most // 100 + 1)
    shown = [credential] * most if who == "node" else [others[n // 100] for n in range(most)]
    with contextlib.ExitStack() as stack:
        for one in shown:  # announced bodies that don't come
            wire = stack.enter_context(Wire(yard.service.root_url))
            wire.head(
                f"POST {PREFIX}/hello HTTP/1.1",
                f"Authorization: Bearer {one}",
                "Myna-Farm: 1",
                "Content-Length: 100",
            )

        def refused() -> bool:
            answer = call(
                "POST", yard.url("beat"), key=credential, data={"beats": []}, headers={"Myna-Farm": "1"}
            )
            return answer.status == 503 and f"This {who} has {most}" in answer.json["error"]["message"]

        wait_until(refused, 15, "one more is refused")
        assert call("GET", f"{yard.service.root_url}/healthz").status == 200

    def served() -> bool:
        return yard.machine().ask("beat", {"beats": []}).status == 200

    wait_until(served, 30, "the next one is served")


def test_strangers_who_send_no_body_keep_no_node_out(yard: Yard) -> None:
    """They show a credential that nobody looks at, or none; both are refused soon."""
    machine = yard.machine()
    token = yard.token()
    with contextlib.ExitStack() as stack:
        for number in range(in_flight.JOINS_MAX + 10):
            wire = stack.enter_context(Wire(yard.service.root_url))
            wire.head(
                f"POST {PREFIX}/join HTTP/1.1",
                f"Authorization: Bearer {machine.credential if number % 2 else number}",
                "Myna-Farm: 1",
                "Content-Length: 4000",
            )
        assert machine.ask("beat", {"beats": []}).status == 200
        wait_until(lambda: yard.join(token).status == 200, 20, "who has a token may join")

"""The CPU time of hundreds of open polls, and the limits of open requests per node and address."""

import contextlib
import hashlib
import os
import secrets
import time
from collections.abc import Iterator

import pytest

from myna.api.farm import concurrency as in_flight
from myna.wire.farm import PREFIX
from tests.farm.node_client import NodeSite
from tests.rig import processes
from tests.rig.calls import Wire, call
from tests.rig.waiting import wait_until

POLLS = 400
WATCHED_S = 3.0
MEASURED_MAX_S = 9.0
"""Other load on the machine only adds to a CPU time, so a low one tells; the polls last longer than this."""
BODY = b'{"jobs": 1, "wait_s": 25}'
HEALTHY_S = 20


@contextlib.contextmanager
def open_polls(site: NodeSite, credentials: list[str]) -> Iterator[list[Wire]]:
    with contextlib.ExitStack() as stack:
        wires = []
        for credential in credentials:
            wire = stack.enter_context(Wire(site.service.root_url))
            wire.head(
                f"POST {PREFIX}/lease HTTP/1.1",
                f"Authorization: Bearer {credential}",
                "Myna-Farm: 1",
                f"Content-Length: {len(BODY)}",
            )
            wire.send(BODY)
            wires.append(wire)
        yield wires


def insert_nodes(site: NodeSite, number: int) -> list[str]:
    """Inserts nodes with SQL and returns their credentials."""
    credentials = ["mynanode_" + secrets.token_hex(20) for _ in range(number)]
    rows = ", ".join(
        f"('many-{secrets.token_hex(4)}-{n}', {blob(site, credential)}, 1, 1, 1, 1)"
        for n, credential in enumerate(credentials)
    )
    columns = "name, credential_hash, slots, heard_at, joined_at, created_at"
    site.sql(f"INSERT INTO nodes ({columns}) VALUES {rows}")
    return credentials


def blob(site: NodeSite, credential: str) -> str:
    digest = hashlib.sha256(credential.encode()).hexdigest()
    return f"'\\x{digest}'" if site.service.env.get("MYNA_DATABASE_URL") else f"x'{digest}'"


def cpu_s(pid: int) -> float:
    """CPU time of the process since its start."""
    fields = processes.proc_file(pid, "stat").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def cpu_used_s(site: NodeSite) -> float:
    before = cpu_s(site.service.pid)
    time.sleep(WATCHED_S)
    return cpu_s(site.service.pid) - before


def test_hundreds_of_open_polls_use_little_cpu(site: NodeSite) -> None:
    credentials = insert_nodes(site, POLLS)
    alone_s = cpu_used_s(site)
    with open_polls(site, credentials):
        heard = "SELECT count(*) FROM nodes WHERE name LIKE 'many-%' AND heard_at > 1"
        wait_until(lambda: site.sql(heard)[0][0] >= POLLS, 60, "all polls have begun", every_s=0.2)
        wait_until(
            lambda: cpu_used_s(site) - alone_s < WATCHED_S / 4, MEASURED_MAX_S, "open polls use little CPU"
        )
        began_s = time.monotonic()
        assert call("GET", f"{site.service.root_url}/healthz").status == 200
        assert time.monotonic() - began_s < HEALTHY_S
    site.sql("DELETE FROM nodes WHERE name LIKE 'many-%'")


@pytest.mark.parametrize("who", ["node", "address"])
def test_open_requests_per_node_and_per_address_are_limited(site: NodeSite, who: str) -> None:
    limit = in_flight.PER_NODE_MAX if who == "node" else in_flight.PER_ADDRESS_MAX
    credential = site.node().credential
    others = insert_nodes(site, limit // 100 + 1)
    credentials = [credential] * limit if who == "node" else [others[n // 100] for n in range(limit)]
    with contextlib.ExitStack() as stack:
        for one in credentials:  # announced bodies that never arrive
            wire = stack.enter_context(Wire(site.service.root_url))
            wire.head(
                f"POST {PREFIX}/hello HTTP/1.1",
                f"Authorization: Bearer {one}",
                "Myna-Farm: 1",
                "Content-Length: 100",
            )

        def refused() -> bool:
            answer = call(
                "POST", site.url("beat"), key=credential, data={"beats": []}, headers={"Myna-Farm": "1"}
            )
            return answer.status == 503 and f"This {who} has {limit}" in answer.json["error"]["message"]

        wait_until(refused, 60, "one more is refused")
        assert call("GET", f"{site.service.root_url}/healthz").status == 200

    def served() -> bool:
        return site.node().ask("beat", {"beats": []}).status == 200

    wait_until(served, 60, "the next one is served")


def test_stalled_joins_do_not_block_nodes_or_other_joins(site: NodeSite) -> None:
    """The stalled joins have a credential, which is not checked, or none. Both are refused at a timeout."""
    node = site.node()
    token = site.token()
    with contextlib.ExitStack() as stack:
        for number in range(in_flight.JOINS_MAX + 10):
            wire = stack.enter_context(Wire(site.service.root_url))
            wire.head(
                f"POST {PREFIX}/join HTTP/1.1",
                f"Authorization: Bearer {node.credential if number % 2 else number}",
                "Myna-Farm: 1",
                "Content-Length: 4000",
            )
        assert node.ask("beat", {"beats": []}).status == 200
        wait_until(lambda: site.join(token).status == 200, 20, "a join with a token succeeds")

"""A node joins, stops, and outlives outages of its service."""

import asyncio
import json
import logging
import signal
import stat
from pathlib import Path

import pytest

from myna.errors import CommandError
from myna.node.server_client import is_unencrypted, site_url
from myna.wire.farm import Job
from tests.node.conftest import ONE_SLOT, NodeWith
from tests.node.local_node import LocalNode, happens, local_node
from tests.rig.compute_node import ComputeNode, NodeMaker
from tests.rig.farm_site import FarmSite, key_of
from tests.rig.waiting import SOON_S, free_port

UNKNOWN = "mynajoin_x"


@pytest.fixture
def fresh(make_node: NodeMaker) -> ComputeNode:
    """A node that has not joined."""
    return make_node()


def refused(node: ComputeNode, url: str, token: str = UNKNOWN, *more: str) -> str:
    """The error line of a refused join, which must leave no credential."""
    before = kept(node)
    ended = node.command("join", url, token, *more)
    assert (ended.code, ended.stdout) == (1, "")
    assert kept(node) == before
    (line,) = ended.stderr.splitlines()
    return line.removeprefix("myna: ")


def kept(node: ComputeNode) -> bytes | None:
    path = node.data / "node.json"
    return path.read_bytes() if path.exists() else None


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_the_credential_is_readable_by_the_owner_only(farm_site: FarmSite, fresh: ComputeNode) -> None:
    ended = fresh.command("join", farm_site.url + "/", farm_site.token, "--json")
    said = json.loads(ended.stdout)
    assert (said["name"], said["url"]) == ("box", farm_site.url)
    assert farm_site.credential not in ended.stdout + ended.stderr
    membership = json.loads(kept(fresh) or b"")
    assert membership == {"url": farm_site.url, "name": "box", "credential": farm_site.credential}
    assert mode(fresh.data) == 0o700
    assert mode(fresh.data / "node.json") == 0o600
    assert [path.name for path in fresh.data.iterdir()] == ["node.json"]


def test_a_second_join_needs_an_option(farm_site: FarmSite, fresh: ComputeNode) -> None:
    fresh.join(farm_site.url, farm_site.token)
    farm_site.token = "mynajoin_2"
    farm_site.credential = "mynanode_2"
    assert "--again" in refused(fresh, farm_site.url, farm_site.token)
    assert farm_site.token, "the token is still good"
    assert fresh.command("join", farm_site.url, farm_site.token, "--again").code == 0
    assert json.loads(kept(fresh) or b"")["credential"] == "mynanode_2"


def test_an_unavailable_service_is_reported(fresh: ComputeNode) -> None:
    port = free_port()
    said = refused(fresh, f"http://127.0.0.1:{port}")
    assert said == f"127.0.0.1:{port} can't be reached: Connection refused."


@pytest.mark.parametrize(
    ("fault", "sentence"),
    [
        ("garbled", "The service's answer does not follow this protocol."),
        ("redirect", "The address redirects to https://elsewhere.example; use the service's own address."),
        ("cut", "closed the connection without an answer."),
        ("status:426", "This is fault 426."),
        ("status:500", "This is fault 500."),
        ("", "This join token is unknown, used or older than an hour."),
    ],
)
def test_the_answer_of_a_service_that_refuses_a_join_is_reported(
    farm_site: FarmSite, fresh: ComputeNode, fault: str, sentence: str
) -> None:
    farm_site.faults["join"].append(fault)
    assert refused(fresh, farm_site.url).endswith(sentence)


@pytest.mark.parametrize(
    "url",
    ["", "box", "ftp://box", "https://user:secret@box", "https://box/v1", "https://box?x=1", "https://"],
)
def test_an_invalid_url_is_refused(url: str) -> None:
    with pytest.raises(CommandError, match="URL must be the service's own address") as refused:
        site_url(url)
    assert "secret" not in str(refused.value)


def test_a_read_only_folder_uses_no_token(farm_site: FarmSite, fresh: ComputeNode, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    ended = fresh.command("join", farm_site.url, farm_site.token, "--data", str(tmp_path / "file" / "below"))
    assert ended.code == 2
    assert "can't be created" in ended.stderr
    assert farm_site.token


def test_an_incomplete_credential_is_reported(farm_site: FarmSite, fresh: ComputeNode) -> None:
    fresh.join(farm_site.url, farm_site.token)
    (fresh.data / "node.json").write_text('{"url": "http')
    ended = fresh.command("run")
    assert ended.code == 1
    assert "isn't whole: join again" in ended.stderr


@pytest.mark.parametrize(
    ("url", "clear"),
    [
        ("http://192.168.1.5:8080", True),
        ("http://127.0.0.9:8080", False),
        ("http://[::1]:8080", False),
        ("https://ai.example.com", False),
    ],
)
def test_plain_http_to_another_machine_is_a_warning(url: str, clear: bool) -> None:
    assert is_unencrypted(site_url(url)) is clear


def test_join_prints_the_warning(farm_site: FarmSite, fresh: ComputeNode) -> None:
    """0.0.0.0 also reaches this machine, but is not treated as the loopback."""
    url = f"http://0.0.0.0:{farm_site.port}"
    ended = fresh.command("join", url, farm_site.token)
    assert ended.code == 0, ended
    assert "use https" in ended.stdout


LONG_GRACE_S = 60.0


def test_an_idle_node_says_that_it_shuts_down_and_exits_with_0(farm_site: FarmSite, joined: NodeWith) -> None:
    node = joined(ONE_SLOT).start()
    node.signal(signal.SIGTERM)
    assert node.exit_code() == 0
    assert [hello.shutting_down for hello in farm_site.hellos] == [False, True]


def test_a_signal_while_the_engines_start_stops_the_node(joined: NodeWith) -> None:
    node = joined(ONE_SLOT).spawn()
    node.wait(lambda: (node.data / "work").is_dir(), "the node has started")
    node.signal(signal.SIGINT)
    assert node.exit_code() == 0
    assert "Traceback" not in node.stderr


async def at_work(site: FarmSite, node: LocalNode) -> Job:
    """A job that the node has leased and can't finish."""
    node.engine.hold()
    job = site.order()
    await happens(lambda: bool(site.beats_of(job)), "the job is leased")
    return job


async def test_a_stopping_node_completes_its_jobs_and_takes_no_more(
    farm_site: FarmSite, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("myna.node.main.LAST_LEASE_S", 0.05)
    async with local_node(farm_site, tmp_path, grace_s=LONG_GRACE_S) as node:
        job = await at_work(farm_site, node)
        node.signals.receive()
        await happens(lambda: farm_site.hellos[-1].shutting_down, "the node says that it shuts down")
        before = len(farm_site.beats_of(job))
        left = farm_site.order()
        await happens(lambda: len(farm_site.beats_of(job)) > before + 3, "beats go on")
        node.engine.resume()
        await asyncio.wait_for(node.running, SOON_S)
    assert key_of(job) in farm_site.completed
    assert key_of(left) not in farm_site.completed
    assert farm_site.failed == []


@pytest.mark.parametrize("signals", [1, 2])
async def test_jobs_unfinished_after_the_grace_period_or_a_second_signal_are_requeued(
    farm_site: FarmSite, tmp_path: Path, signals: int
) -> None:
    async with local_node(farm_site, tmp_path, grace_s=0.05 if signals == 1 else LONG_GRACE_S) as node:
        job = await at_work(farm_site, node)
        node.signals.receive()
        if signals == 2:
            await happens(lambda: farm_site.hellos[-1].shutting_down, "the node says that it shuts down")
            node.signals.receive()
        await asyncio.wait_for(node.running, SOON_S)
    (failure,) = farm_site.failed
    assert (failure.lease.id, failure.returned, failure.final) == (job.id, True, False)


async def test_a_node_stops_in_time_while_its_service_is_unavailable(
    farm_site: FarmSite, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "myna.node")
    async with local_node(farm_site, tmp_path, grace_s=0.05) as node:
        job = await at_work(farm_site, node)
        await asyncio.to_thread(farm_site.stop)
        node.signals.receive()
        await asyncio.wait_for(node.running, SOON_S)
    assert [line for line in caplog.messages if line.startswith(f"task {job.id}: not requeued")]


RECOVERED = "it answers again"
Log = pytest.LogCaptureFixture


def logged(caplog: Log, part: str) -> list[str]:
    """The messages with this part."""
    return [message for message in caplog.messages if part in message]


async def restart(site: FarmSite) -> None:
    await asyncio.to_thread(site.stop)
    site.start()


async def completed(site: FarmSite) -> None:
    """Waits until a new job is completed."""
    job = site.order()
    await happens(lambda: key_of(job) in site.completed, "the job is completed")


async def test_a_node_reconnects_after_a_restart(farm_site: FarmSite, local: LocalNode, caplog: Log) -> None:
    await asyncio.to_thread(farm_site.stop)
    await happens(lambda: bool(logged(caplog, "Trying again.")), "the node tries again")
    farm_site.start()
    await completed(farm_site)
    await happens(lambda: bool(logged(caplog, RECOVERED)), "the outage has ended")
    assert logged(caplog, "connected to") == []


async def test_an_outage_is_logged_once(farm_site: FarmSite, local: LocalNode, caplog: Log) -> None:
    local.engine.hold()
    job = farm_site.order()
    await happens(lambda: bool(farm_site.beats_of(job)), "the job is leased")
    farm_site.unavailable = True
    tries = farm_site.requests
    await happens(lambda: farm_site.requests > tries + 8, "requests are tried again")
    local.engine.resume()
    farm_site.unavailable = False
    await happens(lambda: key_of(job) in farm_site.completed, "the job is completed")
    await happens(lambda: bool(logged(caplog, RECOVERED)), "the outage has ended")
    assert logged(caplog, "Trying again.") == ["the service: The database is unavailable. Trying again."]


@pytest.mark.parametrize("fault", ["cut", "status:500", "garbled", "not-json", "status:429", "lose"])
async def test_a_failed_completion_is_retried(
    farm_site: FarmSite, local: LocalNode, caplog: Log, fault: str
) -> None:
    """With `lose` the service has the audio, so a beat meanwhile asks the node to cancel the job."""
    farm_site.faults["complete"] += [fault, fault]
    job = farm_site.order()
    await happens(lambda: bool(logged(caplog, f"task {job.id}: 3 characters")), "the job is done")
    brought = farm_site.uploads_of(job)
    assert brought == [brought[0]] * (3 if fault == "lose" else 1)
    assert farm_site.failures_of(job) == []
    assert logged(caplog, "dropped") == []


async def test_a_failure_report_is_retried(farm_site: FarmSite, local: LocalNode) -> None:
    farm_site.faults["fail"] += ["cut", "status:500"]
    job = farm_site.order(voice_id="somebody-else")
    await happens(lambda: bool(farm_site.failures_of(job)), "the failure is reported")
    assert farm_site.faults["fail"] == []


async def test_a_disabled_node_drops_its_jobs(farm_site: FarmSite, local: LocalNode, caplog: Log) -> None:
    farm_site.faults["complete"] += ["hang"]
    job = farm_site.order()
    await happens(lambda: not farm_site.faults["complete"], "the audio is on its way")
    farm_site.admits = False
    farm_site.notify()
    dropped = f"task {job.id}: dropped: the service refuses this node's credential"
    for part in (dropped, "The operator has disabled this node."):
        await happens(lambda part=part: bool(logged(caplog, part)), part)

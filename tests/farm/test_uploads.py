"""Uploads of the audio of a completed job."""

import asyncio

import asyncpg
import pytest

from myna.wire.farm import AUDIO_MAX_BYTES, JOB_HEADER, SHA256_HEADER, LeaseProof
from tests.farm.node_client import NodeClient, NodeSite, each_database, mp3, new_voice
from tests.rig.calls import Wire, call
from tests.rig.service import ServiceMaker
from tests.rig.waiting import until, wait_until
from tests.store.postgres_proxy import proxy_to

PROMPT_S = 30
Leased = tuple[NodeClient, LeaseProof]
"""A node and a job leased to it."""


@pytest.fixture
def leased_job(site: NodeSite, key: str) -> Leased:
    voice = new_voice()
    node = site.node(voice)
    task = site.order(key, voice)
    job = node.take()
    assert job.id == task
    return node, job


@each_database
def test_an_upload_is_served_unchanged_and_the_call_is_kept(site: NodeSite) -> None:
    account, voice = site.service.account(units=1), new_voice()
    key = account.key().plain
    node = site.node(voice)
    task = site.order(key, voice)
    answer = node.complete(node.take(), mp3())
    assert (answer.status, answer.json) == (200, {"ok": 1})
    task_row = site.task(key, task)
    assert task_row["status"] == 2
    assert call("GET", task_row["audio_url"]).body == mp3()
    assert call("GET", f"{site.service.base_url}/me", key=key).json["stats"]["ok_calls"] == 1
    assert site.service.cli("account", "show", account.name)["balance"] == 0
    assert node.listed["chars_per_s"] > 0


def test_a_repeated_upload_succeeds_and_leaves_one_file(site: NodeSite, key: str, leased_job: Leased) -> None:
    node, job = leased_job
    before = site.audio()
    assert node.complete(job, mp3()).status == 200
    kept = site.audio() - before
    assert [path.suffix for path in kept] == [".mp3"]
    assert node.complete(job, mp3()).json == {"ok": 1}
    assert site.audio() - before == kept
    assert call("GET", site.task(key, job.id)["audio_url"]).body == mp3()


def test_an_upload_of_an_expired_lease_is_refused_before_its_body(site: NodeSite, leased_job: Leased) -> None:
    node, job = leased_job
    site.sql("UPDATE tasks SET lease_until = now_ms() - 1 WHERE id = $1", job.id)
    before = site.audio()
    with Wire(site.service.root_url, deadline_s=PROMPT_S) as wire:
        node.begin(wire, job, mp3(), size=AUDIO_MAX_BYTES)
        answer = wire.answer()
        assert (answer.status, answer.headers["connection"]) == (409, "close")
    again = node.take()
    assert (again.id, again.epoch) == (job.id, 2)
    assert node.complete(job, mp3()).status == 409
    assert site.audio() == before
    assert node.complete(again, mp3()).status == 200


def test_an_upload_whose_lease_expires_is_409_and_leaves_no_file(site: NodeSite, leased_job: Leased) -> None:
    node, job = leased_job
    audio, before = mp3(seconds=5), site.audio()
    with Wire(site.service.root_url, deadline_s=PROMPT_S) as wire:
        node.begin(wire, job, audio)
        wire.send(audio[:1000])
        wait_until(lambda: len(site.audio() - before) == 1, PROMPT_S, "the upload has begun")
        site.sql("UPDATE tasks SET lease_until = now_ms() - 1 WHERE id = $1", job.id)
        wire.send(audio[1000:])
        assert wire.answer().status == 409
    assert site.audio() == before


@pytest.mark.parametrize(
    ("audio", "headers", "said"),
    [
        (mp3(), {SHA256_HEADER: "0" * 64}, "myna-sha256"),
        (b"this is no mp3 " * 1000, {}, "not audio"),
        (mp3(), {SHA256_HEADER: "x"}, "myna-sha256"),
        (mp3(), {JOB_HEADER: "task 99999999999999999999 1 x"}, "myna-job"),
    ],
    ids=["other hash", "noise", "bad hash", "bad number"],
)
def test_an_invalid_upload_is_refused_and_the_lease_continues(
    site: NodeSite, leased_job: Leased, audio: bytes, headers: dict[str, str], said: str
) -> None:
    node, job = leased_job
    before = site.audio()
    answer = node.complete(job, audio, **headers)
    assert answer.status == 400, answer
    assert said in answer.json["error"]["message"]
    assert site.audio() == before
    assert node.complete(job, mp3()).status == 200


def test_an_interrupted_upload_leaves_no_file_and_keeps_the_lease(site: NodeSite, leased_job: Leased) -> None:
    node, job = leased_job
    before = site.audio()
    with Wire(site.service.root_url) as wire:
        node.begin(wire, job, mp3())
        wire.send(mp3()[:-1])
        wait_until(lambda: len(site.audio() - before) == 1, PROMPT_S, "the upload has begun")
    wait_until(lambda: site.audio() == before, PROMPT_S, "the part is removed")
    # Until the connection of the first upload is closed, a second one of the same lease is a 503.
    wait_until(lambda: node.complete(job, mp3()).status == 200, PROMPT_S, "the lease accepts the upload")


def test_an_upload_without_length_or_too_long_is_refused_unread(site: NodeSite, leased_job: Leased) -> None:
    node, job = leased_job
    before = site.audio()
    headers = node.upload_headers(job, mp3())
    chunked = call("POST", site.url("complete"), key=node.credential, body=iter([mp3()]), headers=headers)
    assert chunked.status == 400
    assert node.complete(job, b"").status == 400
    with Wire(site.service.root_url, deadline_s=PROMPT_S) as wire:
        node.begin(wire, job, mp3(), size=AUDIO_MAX_BYTES + 1)
        assert wire.answer().status == 413
    assert site.audio() == before


def test_a_job_has_one_upload_at_a_time(site: NodeSite, key: str, leased_job: Leased) -> None:
    node, job = leased_job
    before = site.audio()
    with Wire(site.service.root_url) as wire:
        node.begin(wire, job, mp3())
        wire.send(mp3()[:100])
        wait_until(lambda: site.audio() != before, PROMPT_S, "the first upload has begun")
        second = node.complete(job, mp3())
        assert second.status == 503, second
        wire.send(mp3()[100:])
        assert wire.answer().status == 200
    assert node.complete(job, mp3()).status == 200
    assert site.task(key, job.id)["status"] == 2


def test_bytes_in_upload_per_node_are_limited(site: NodeSite, key: str) -> None:
    voice = new_voice()
    node, other = site.node(voice), site.node(voice)
    node.hello(voice, slots=3)
    for _ in range(4):
        site.order(key, voice)
    jobs = [node.take() for _ in range(3)]
    before = len(site.audio())
    with Wire(site.service.root_url) as first, Wire(site.service.root_url) as second:
        for wire, job in zip((first, second), jobs, strict=False):
            node.begin(wire, job, mp3(), size=AUDIO_MAX_BYTES)
            wire.send(mp3()[:100])
        wait_until(lambda: len(site.audio()) == before + 2, PROMPT_S, "both uploads have begun")
        refused = node.complete(jobs[2], mp3())
        assert refused.status == 503, refused
        assert other.complete(other.take(), mp3()).status == 200
    wait_until(
        lambda: node.complete(jobs[2], mp3()).status == 200, PROMPT_S, "the limit allows another upload"
    )


@each_database
def test_a_sound_much_longer_than_its_text_is_a_failure_of_its_node(site: NodeSite, key: str) -> None:
    """The text makes two seconds at most, so fourteen are accepted."""
    voice = new_voice()
    node, other = site.node(voice), site.node(voice)
    task = site.order(key, voice)
    before = site.audio()
    refused = node.complete(node.take(), mp3(15))
    assert (refused.status, "this text makes at most" in refused.json["error"]["message"]) == (400, True)
    assert site.audio() == before
    assert site.task(key, task)["status"] == 0
    assert node.listed["cooldown_until"]
    assert other.complete(other.take(), mp3(13)).status == 200
    assert site.task(key, task)["status"] == 2


STALL = """
CREATE TABLE stall (n bigint);
INSERT INTO stall VALUES (1);
CREATE FUNCTION wait_in_commit() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    WHILE EXISTS (SELECT 1 FROM stall) LOOP PERFORM pg_sleep(0.005); END LOOP;
    RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER stalls AFTER UPDATE ON tasks DEFERRABLE INITIALLY DEFERRED
FOR EACH ROW WHEN (new.status = 2) EXECUTE FUNCTION wait_in_commit();
"""
"""A deferred trigger runs in the COMMIT, after all statements of the transaction."""
STALLED = "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND wait_event = 'PgSleep'"


async def test_audio_is_kept_if_the_commit_is_in_doubt(make_service: ServiceMaker, postgres_url: str) -> None:
    async with proxy_to(postgres_url) as proxy:
        service = make_service(database_url=proxy.url, chat_url="parrot:", speech="none")
        await asyncio.to_thread(service.start)
        site, voice = NodeSite(service), new_voice()
        key = await asyncio.to_thread(lambda: service.account().key().plain)
        node = await asyncio.to_thread(site.node, voice)
        task = await asyncio.to_thread(site.order, key, voice)
        job = await asyncio.to_thread(node.take)
        aside = await asyncpg.connect(postgres_url)
        await aside.execute(STALL)

        async def stalled() -> bool:
            return bool(await aside.fetch(STALLED))

        async def committed() -> bool:
            return bool(await aside.fetchval("SELECT status = 2 FROM tasks WHERE id = $1", task))

        first = asyncio.create_task(asyncio.to_thread(node.complete, job, mp3()))
        await until(stalled, "the COMMIT that names the audio has begun")
        proxy.disconnect()
        assert (await first).status == 503
        assert len(site.audio()) == 1
        await aside.execute("DELETE FROM stall")
        await until(committed, "the transaction is committed")
        await aside.close()
        assert (await asyncio.to_thread(node.complete, job, mp3())).status == 200
        assert len(site.audio()) == 1
        address = (await asyncio.to_thread(site.task, key, task))["audio_url"]
        assert (await asyncio.to_thread(call, "GET", address)).body == mp3()
        assert await asyncio.to_thread(service.stop) == 0


RESERVE = "MYNA_DISK_RESERVE_BYTES"


def test_audio_is_503_below_the_disk_reserve_and_accepted_later(make_service: ServiceMaker) -> None:
    service = make_service(chat_url="parrot:", speech="none").start()
    site = NodeSite(service)
    key, voice = service.account(units=1).key().plain, new_voice()
    node = site.node(voice)
    task = site.order(key, voice)
    job = node.take()

    service.env[RESERVE] = str(2**50)
    service.restart()
    refused = node.complete(job, mp3())
    assert refused.status == 503
    assert refused.json["error"]["type"] == "service_unavailable"
    assert refused.json["error"]["message"] == "The server has no space for new audio; send it again later."
    assert refused.headers["retry-after"] == "60"
    assert not site.audio()
    assert site.task(key, task)["status"] == 1

    service.env[RESERVE] = "0"
    service.restart()
    assert node.complete(job, mp3()).status == 200
    assert site.task(key, task)["status"] == 2
    assert service.command("audit").code == 0

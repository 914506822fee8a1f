"""The database disconnects in the COMMIT that names the audio: it is in doubt, so the audio is kept."""

import asyncio

import asyncpg
import pytest

from tests.farm.node_client import NodeSite, mp3, new_voice
from tests.rig.calls import call
from tests.rig.service import ServiceMaker
from tests.store.postgres_proxy import proxy_to
from tests.store.stalls import until

pytestmark = pytest.mark.anyio

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

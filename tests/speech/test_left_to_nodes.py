"""Speech that the service began and leaves to the compute nodes."""

import asyncio
from functools import partial
from typing import Any

import pytest
from msgspec import structs

from myna.billing.ledger import Call
from myna.billing.quota import Quota
from myna.channels.channels import Channels, SpeechChannel
from myna.engines.interface import EngineVoice, SpeechResult
from myna.engines.openai.api import request_headers
from myna.engines.openai.engine import OpenAISpeech
from myna.engines.pool.admission import Admission, Slot
from myna.errors import CommitInDoubt, UpstreamFailed
from myna.farm.tasks import Tasks
from myna.http.client import HttpClient
from myna.lib.files import DiskExecutor
from myna.settings import Settings
from myna.speech.catalogue import VoiceChoice
from myna.speech.plan import CheckedSpeech, SpeechPlan
from myna.speech.synthesize import SpokenPlan, Synthesizer
from myna.store.batch import CallState, TaskStatus
from myna.store.files.named_files import AudioStore
from myna.store.files.storage import Folder, FreeSpace
from myna.store.postgresql import Postgresql
from tests.ledger.ledger_service import LedgerService, ledger_service_on
from tests.store.books import AUDIO, Books, speech
from tests.store.postgres_proxy import proxy_to
from tests.tasks.task_service import planner_of, proof_of, task_service_on

VOICE = speech().voice_id
CLOSED_PORT_URL = "http://127.0.0.1:9"


def unreachable(kind: type[OpenAISpeech], outbound: HttpClient) -> OpenAISpeech:
    """The engine of a channel whose server refuses connections."""
    return kind(
        outbound,
        DiskExecutor(),
        url=CLOSED_PORT_URL,
        key="",
        headers=partial(request_headers, ""),
        model="m",
        answer_max_bytes=1,
    )


class SpeechService:
    """A service whose channel speaks nothing, so its tasks go to nodes; `tasks` may have its own database."""

    def __init__(self, books: Books, service: LedgerService, tasks: Tasks) -> None:
        self.outbound = HttpClient(connections_max=1)
        self.admission, slot = Admission(processes=1, queue_max=0, account_max=1), Slot()
        slot.acquire(self.admission, 1, 2.0, 60.0)
        engine = unreachable(OpenAISpeech, self.outbound)
        channel = SpeechChannel("a channel", engine, (), up=True)
        choice = VoiceChoice(
            EngineVoice(voice_id=VOICE, name="A voice", gender="female", language="zh-CN"),
            (channel,),
            frozenset({1}),
        )
        self.plan = SpeechPlan(
            request=CheckedSpeech(text="hello", voice_id=VOICE, speed=1.0, channel_s=5.0, node_s=60.0),
            text="hello",
            choice=choice,
            sound_s=2.0,
            sound_max_s=1800,
            slot=slot,
        )
        settings = Settings(speech="espeak")
        channels = Channels(settings=settings, environ={}, http_client=self.outbound, local={})
        planner = planner_of(service, channels, FreeSpace(books.folder, 0), Quota(books.db, service.config))
        audio = AudioStore(Folder(books.folder))
        self.speaks = Synthesizer(
            settings=settings,
            ledger=service.ledger,
            config=service.config,
            channels=channels,
            tasks=tasks,
            planner=planner,
            audio=audio,
        )

    async def deliver(self, call: Call) -> None:
        """As POST /tts does. The slot is free before a refund, which tells the client that it may retry."""
        try:
            async with call:
                try:
                    plan, never = SpokenPlan(self.plan, lambda _: "", 1), asyncio.Event().wait
                    spoken = await self.speaks.deliver(call, plan, disconnected=never)
                finally:
                    assert not self.admission.refusal(1, 2.0, 60.0)
                assert spoken is None
        finally:
            await self.outbound.close()


async def test_a_call_that_cannot_be_left_to_nodes_is_refunded(postgres_books: Books) -> None:
    """The error does not say that nothing was charged: it was."""
    books = postgres_books
    customer = await books.customer()
    unavailable = await books.open_again()
    await unavailable.close()
    async with ledger_service_on(books.db) as service:
        call = await service.admit(customer, service.order(task=speech(TaskStatus.PROCESSING)))
        with pytest.raises(UpstreamFailed):
            await SpeechService(books, service, Tasks(unavailable, lease_s=30)).deliver(call)
    assert await books.balance(customer) == 10


async def test_a_call_left_to_nodes_with_a_lost_reply_is_refunded(postgres_books: Books) -> None:
    """The COMMIT that left the task to the nodes went through; the refund fails the task."""
    books = postgres_books
    customer = await books.customer()
    async with ledger_service_on(books.db) as service, proxy_to(books.url) as proxy:
        db = await Postgresql.open(proxy.url)
        call = await service.admit(customer, service.order(task=speech(TaskStatus.PROCESSING)))
        proxy.drop_reply_to(b"COMMIT")
        with pytest.raises(UpstreamFailed, match="refunded"):
            await SpeechService(books, service, Tasks(db, lease_s=30)).deliver(call)
        assert proxy.dropped == 1
        await db.close()
    assert await books.balance(customer) == 10
    assert (await books.task(call.id))[0] == TaskStatus.FAILED


async def test_a_lost_reply_after_a_node_completed_the_call_is_in_doubt(
    postgres_books: Books, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The call is kept, so no error may say that it was refunded."""
    books = postgres_books
    async with (
        task_service_on(books) as other,
        ledger_service_on(books.db) as service,
        proxy_to(books.url) as proxy,
    ):
        node, customer = await other.node(VOICE), await books.customer()
        db = await Postgresql.open(proxy.url)
        tasks = Tasks(db, lease_s=30)
        queue_for_nodes = tasks.queue_for_nodes

        async def slowly(*asked: Any) -> bool:
            try:
                return await queue_for_nodes(*asked)
            finally:
                (job,) = await other.tasks.lease(node, 1, 10)
                assert await other.tasks.complete(node, proof_of(job), AUDIO)

        monkeypatch.setattr(tasks, "queue_for_nodes", slowly)
        call = await service.admit(customer, service.order(task=speech(TaskStatus.PROCESSING)))
        proxy.drop_reply_to(b"COMMIT")
        with pytest.raises(CommitInDoubt):
            await SpeechService(books, service, tasks).deliver(call)
        assert proxy.dropped == 1
        await db.close()
    assert await books.balance(customer) == 9
    assert await books.state(call.id) == CallState.KEPT


class NeverAsked(OpenAISpeech):
    """The engine of a channel that is full."""

    async def speak(self, *_: object, **__: object) -> SpeechResult:
        raise AssertionError("it refused the text, and was asked")


async def test_a_channel_that_refused_the_text_is_not_asked(postgres_books: Books) -> None:
    books = postgres_books
    customer = await books.customer()
    async with ledger_service_on(books.db) as service:
        speaks = SpeechService(books, service, Tasks(books.db, lease_s=30))
        never = unreachable(NeverAsked, speaks.outbound)
        full = SpeechChannel("full", never, (), up=True, full=True)
        choice = structs.replace(speaks.plan.choice, channels=(full, *speaks.plan.choice.channels))
        speaks.plan = structs.replace(speaks.plan, choice=choice)
        call = await service.admit(customer, service.order(task=speech(TaskStatus.PROCESSING)))
        await speaks.deliver(call)

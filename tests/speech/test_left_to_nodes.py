"""Speech that the site began and leaves to the compute nodes."""

import pytest

from myna.channels import Channels, SpeechChannel
from myna.disk_threads import Disk
from myna.engines.openai import OpenAISpeech
from myna.engines.spoken import Voice
from myna.errors import UpstreamFailed
from myna.outbound import Outbound
from myna.outlook import Outlook
from myna.settings import Settings
from myna.speech.plan import Planner, SpeechPlan, Wish
from myna.speech.synthesize import Answers, Synthesizer
from myna.store.audio import AudioStore
from myna.store.batch import TaskStatus
from myna.tasks import Tasks
from myna.voices import Choice
from tests.ledger.desk import asks, desk_on
from tests.store.books import Books, speech

pytestmark = pytest.mark.anyio

NOBODY_THERE = "http://127.0.0.1:9"


async def test_where_the_database_is_away_then_the_call_failed_and_is_refunded(
    postgres_books: Books,
) -> None:
    """It isn't told that nothing was charged: it was."""
    books = postgres_books
    holder, outbound, settings = await books.holder(), Outbound(connections_max=1), Settings()
    away = await books.open_again()
    await away.close()
    engine = OpenAISpeech(outbound, Disk(), url=NOBODY_THERE, key=None, model="m", answer_max_bytes=1)
    channel = SpeechChannel("a channel", engine, (), up=True)
    choice = Choice(Voice("a voice", "A voice", "female", "zh-CN"), (channel,), frozenset({1}))
    async with desk_on(books.db) as desk:
        channels = Channels(settings, {}, outbound, None)
        planner = Planner(books.db, desk.ledger, desk.site, channels, Outlook(books.db))
        tasks, audio = Tasks(away, lease_s=30), AudioStore(books.folder / "audio")
        speaks = Synthesizer(settings, desk.ledger, desk.site, channels, tasks, planner, audio)
        call = await desk.admit(holder, desk.order(task=speech(TaskStatus.PROCESSING)))
        plan = SpeechPlan(Wish("hello", "a voice", 1.0, 5.0, 60.0), choice)
        with pytest.raises(UpstreamFailed):
            async with call:
                await speaks.deliver(asks(holder), call, plan, Answers(lambda _: "", lambda *_: ""))
    assert await books.balance(holder) == 10
    await outbound.close()

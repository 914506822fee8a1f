"""POST /tts, GET /voices, /task, /records."""

import re

from myna import voices
from myna.api.auth import Gate
from myna.channels import Channels
from myna.edge import Request, Response
from myna.engines.spoken import Voice as SpokenVoice
from myna.errors import InvalidRequest, NotFound
from myna.keys import Scope
from myna.outlook import Outlook
from myna.site import Site
from myna.speech.synthesize import Synthesizer
from myna.store import clones
from myna.store import tasks as store
from myna.store.batch import TaskStatus
from myna.store.database import Database
from myna.store.tasks import TaskRow
from myna.wire.encode import to_json
from myna.wire.v1 import Record, RecordList, Task, TaskAnswer, Voice, VoiceList

STATUS_TEXTS = {
    "zh": ("排队中", "处理中", "已完成", "失败"),
    "en": ("queued", "processing", "completed", "failed"),
}
RECORDS_MAX, RECORDS_DEFAULT = 200, 100
ID_MAX = 2**53
_INTEGER = re.compile(r"-?[0-9]+")


class SpeechApi:
    """Handlers of the speech endpoints."""

    def __init__(
        self,
        gate: Gate,
        db: Database,
        site: Site,
        channels: Channels,
        outlook: Outlook,
        synthesizer: Synthesizer,
    ) -> None:
        self._gate, self._db, self._site = gate, db, site
        self._channels, self._outlook, self._synthesizer = channels, outlook, synthesizer

    async def speak(self, request: Request) -> Response:
        caller, body = await self._gate.caller(request, Scope.TTS)
        return Response((await self._synthesizer.speak(caller, body)).encode())

    async def voices(self, request: Request) -> Response:
        presented = await self._gate.reader(request, Scope.TTS)
        await self._gate.read(self._site.at(presented.config_version))
        config = self._site.config
        nodes = await self._gate.read(self._outlook.nodes(config))
        own = clones.ready(self._db, presented.key.account_id) if nodes else None
        cloned = voices.usable_clones(await self._gate.read(own), config, nodes) if own else []
        public = voices.usable(self._channels, config, nodes)
        data = [_shown(voice, "public") for voice in public] + [_shown(voice, "clone") for voice in cloned]
        return Response(to_json(VoiceList("list", data, data[0].voice_id if data else "")).encode())

    async def task(self, request: Request) -> Response:
        presented = await self._gate.reader(request, Scope.TTS)
        task_id = read_integer("id", request.query().get("id"))
        found = None
        if 0 < task_id <= ID_MAX:
            query = store.of_account(self._db, presented.key.account_id, task_id)
            found = await self._gate.read(query)
        if found is None:
            raise NotFound("There is no such task; check the id.")
        await self._gate.read(self._site.at(presented.config_version))
        return Response(to_json(TaskAnswer(1, Task(*self._shown(found)))).encode())

    async def records(self, request: Request) -> Response:
        presented = await self._gate.reader(request, Scope.RECORDS)
        query = request.query()
        limit = read_integer("limit", query.get("limit", str(RECORDS_DEFAULT)))
        before = read_integer("before", query.get("before", str(ID_MAX)))
        if not 1 <= limit <= RECORDS_MAX:
            raise InvalidRequest(f"limit: must be from 1 to {RECORDS_MAX}.")
        if before < 1:
            raise InvalidRequest("before: must be the id of a record.")
        page = store.page(self._db, presented.key.account_id, min(before, ID_MAX), limit + 1)
        rows = await self._gate.read(page)
        await self._gate.read(self._site.at(presented.config_version))
        data = [Record(*self._shown(row), row.created_at // 1000) for row in rows[:limit]]
        return Response(to_json(RecordList("list", len(data), data, len(rows) > limit)).encode())

    def _shown(self, row: TaskRow) -> tuple[int, int, str, str, int, str]:
        text = STATUS_TEXTS[self._site.settings.language][row.status]
        if row.status == TaskStatus.PROCESSING and row.progress:
            text = f"{text} {row.progress}%"
        return row.id, row.status, text, row.text, row.chars, self._synthesizer.url(row.audio)


def _shown(voice: SpokenVoice, source: str) -> Voice:
    return Voice(voice.voice_id, voice.name, voice.gender, voice.language, source)


def read_integer(name: str, value: str | None) -> int:
    """A query parameter. Raises InvalidRequest."""
    if value is None:
        raise InvalidRequest(f"{name}: is missing.")
    if not _INTEGER.fullmatch(value) or len(value) > 1000:
        raise InvalidRequest(f"{name}: must be an integer.")
    return int(value)

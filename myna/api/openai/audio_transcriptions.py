"""POST /audio/transcriptions, POST /audio/translations."""

from msgspec import structs

from myna.accounts.keys import Scope, UnverifiedCaller
from myna.api import units
from myna.api.auth import KeyAuth
from myna.api.openai.multipart import Form
from myna.errors import DiskFull, MynaError
from myna.gateway import transcripts as requests
from myna.gateway.transcription import Transcriber
from myna.gateway.transcripts import Upload
from myna.http.asgi import Handler
from myna.http.request import BodyBudget, Request
from myna.http.responses import Response, envelope
from myna.lib.files import DiskExecutor
from myna.store.files.free_space import FreeSpace
from myna.store.files.spool import Spool

NO_SPACE = "The disk has no space for recordings; nothing was charged, try again later."
SPOOLED_MAX = 40
"""Recordings of the largest size that a process may have in the spool folder; a quarter of them of one
account."""


class AudioTranscriptionsApi:
    """Handlers of recordings. One may have `upload_max_bytes`."""

    def __init__(
        self,
        key_auth: KeyAuth,
        transcriber: Transcriber,
        spool: Spool,
        space: FreeSpace,
        disk: DiskExecutor,
        *,
        upload_max_bytes: int,
    ) -> None:
        self._key_auth = key_auth
        self._transcriber = transcriber
        self._spool = spool
        self._space = space
        self._disk = disk
        self._upload_max_bytes = upload_max_bytes
        self._spooled = BodyBudget(SPOOLED_MAX * upload_max_bytes, upload_max_bytes)
        self.transcriptions = self._handler(translate=False)
        self.translations = self._handler(translate=True)

    def _handler(self, *, translate: bool) -> Handler:
        async def handle(request: Request) -> Response:
            return await self._handle(request, translate)

        return handle

    async def _handle(self, request: Request, translate: bool) -> Response:
        caller = await self._key_auth.verified_caller(request, Scope.CHAT)
        size_bytes = min(request.declared_bytes or self._upload_max_bytes, self._upload_max_bytes)
        form = Form(self._spool, self._disk)
        try:
            self._take_room(size_bytes, caller.details.account_id)
        except MynaError as refusal:  # the body is not read
            return structs.replace(envelope(refusal, request.path), close=True)
        try:
            async with form:
                try:
                    await form.read(request, self._upload_max_bytes)
                except MynaError as refusal:  # the rest of the body is not read
                    return structs.replace(envelope(refusal, request.path), close=True)
                return await self._answer(request, caller, form, translate)
        finally:
            self._spooled.release(size_bytes, caller.details.account_id)

    def _take_room(self, size_bytes: int, account_id: int) -> None:
        """Raises DiskFull, or TooManyBodies if as much is being transcribed as may be."""
        if self._space.low:
            raise DiskFull(NO_SPACE)
        self._spooled.take(size_bytes, account_id)

    async def _answer(
        self, request: Request, caller: UnverifiedCaller, form: Form, translate: bool
    ) -> Response:
        asked = requests.read(form.fields, _upload(form), translate=translate)
        caller = self._key_auth.with_idempotency_key(request, caller, form.fingerprint)
        answer = await self._transcriber.answer(caller, asked, request.limits.budget, request.disconnected)
        headers = units.headers_with_channel(caller.details)
        return Response(answer, headers=headers, media_type=asked.media_type)


def _upload(form: Form) -> Upload | None:
    file = form.file
    if file is None:
        return None
    return Upload(path=file.path, name=file.name, media_type=file.media_type, size_bytes=file.size_bytes)

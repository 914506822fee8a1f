"""The embedded Whisper: offered where its model and its library are installed, started at its first use."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

from myna.engines.interface import EngineBusy, EngineFailed, LanguageUnknown, SampleRefused
from myna.engines.media.job import Transcript, TranscriptionJob
from myna.engines.media.media import Whisper, whisper_is_installed
from myna.engines.models.published import WHISPER, installed
from myna.engines.pool.child_main import path_bytes
from myna.errors import InvalidRequest, ModelNotFound, Overloaded, UpstreamFailed
from myna.gateway.transcription.request import TranscriptionRequest

NOT_TRANSCRIBED: Final = "The recording could not be transcribed; the units were refunded, try again later."
FULL: Final = "As many recordings wait to be transcribed as may; nothing was charged, try again later."
FULL_BY_NOW: Final = (
    "As many recordings wait to be transcribed as may; the units were refunded, try again later."
)
NO_LIBRARY: Final = "Myna's extra 'hear' is not installed: run 'make setup-extras' and restart the service"
NO_MODEL: Final = f"its model is missing: run 'myna models get {WHISPER.name}'"
NOT_OFFERED: Final = "model: {model} is not offered on this site; ask its operator, or use another model."
THREADS_MAX: Final = 4

log = logging.getLogger(__name__)


class EmbeddedWhisper:
    """The model of this process, in the data folder. It reads recordings in `recordings`."""

    def __init__(self, data_folder: Path, recordings: Path, *, cores: int, deadline_s: float) -> None:
        self._data_folder = data_folder
        self._recordings = recordings
        self._threads = min(cores, THREADS_MAX)
        self._deadline_s = deadline_s
        self._whisper: Whisper | None = None
        self._logged = ""

    async def require(self, model: str) -> None:
        """Raises ModelNotFound, with a message for the caller, if it can't transcribe; the log says once how
        the operator can offer it. Raises Overloaded if the queue is full."""
        if missing := await self.missing():
            if missing != self._logged:
                log.warning("a caller asked for %s, which is not offered: %s", model, missing)
            self._logged = missing
            raise ModelNotFound(model, NOT_OFFERED.format(model=model))
        if self._whisper is not None and self._whisper.full():
            raise Overloaded(FULL)

    async def missing(self) -> str:
        """The missing part, as the end of a sentence for the operator; empty if it can transcribe."""
        if not whisper_is_installed():
            return NO_LIBRARY
        if self._whisper is None:
            folder = await asyncio.to_thread(installed, self._data_folder, WHISPER.name)
            if folder is None:
                return NO_MODEL
            self._whisper = Whisper(
                folder, self._recordings, threads=self._threads, job_deadline_s=self._deadline_s
            )
        return ""

    async def transcribe(
        self,
        request: TranscriptionRequest,
        account_id: int,
        deadline_s: float,
        disconnected: Callable[[], Awaitable[None]],
    ) -> Transcript:
        """Raises InvalidRequest for a recording that can't be read, UpstreamFailed for other failures."""
        if self._whisper is None:
            raise UpstreamFailed(NOT_TRANSCRIBED)
        job = TranscriptionJob(
            source=path_bytes(request.upload.path),
            translate=request.translate,
            language=request.language,
            prompt=request.prompt or None,
            temperature=request.temperature,
            words=request.words,
            script=request.script,
        )
        try:
            return await self._whisper.transcribe(job, deadline_s, account_id, disconnected)
        except (LanguageUnknown, SampleRefused) as refusal:
            field = "language" if isinstance(refusal, LanguageUnknown) else "file"
            raise InvalidRequest(f"{refusal} The units were refunded.", field=field) from refusal
        except EngineBusy:
            raise Overloaded(FULL_BY_NOW) from None
        except EngineFailed as failure:
            raise UpstreamFailed(NOT_TRANSCRIBED) from failure

    async def close(self) -> None:
        """Ends the child process."""
        if self._whisper is not None:
            await self._whisper.close()

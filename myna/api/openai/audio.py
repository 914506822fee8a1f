"""The audio endpoints of /openai/v1, with the parts that only they need."""

from pathlib import Path

from myna.api.auth import KeyAuth
from myna.api.openai.audio_speech import AudioSpeechApi
from myna.api.openai.audio_transcriptions import AudioTranscriptionsApi
from myna.channels import Channels
from myna.config import ConfigCache
from myna.engines.transcoder.transcoder import Transcoder
from myna.farm.capacity import Capacity
from myna.files.disk_threads import DiskExecutor
from myna.http.asgi import Routes
from myna.http_client import HttpClient
from myna.ledger import Ledger
from myna.sandbox.confinement import AllowedPaths
from myna.settings import Settings, usable_cores
from myna.speech.delivery import Workshop
from myna.speech.plan import Planner
from myna.speech.streamed import StreamedSpeech
from myna.speech.synthesize import Synthesizer
from myna.store.database import Database
from myna.store.files.audio import AudioStore
from myna.store.files.free_space import FreeSpace
from myna.store.files.spool import Spool
from myna.transcription.embedded import EmbeddedWhisper
from myna.transcription.transcribe import Transcriber


class OpenAIAudio:
    """Makes the parts of one process. Its child processes start at their first job and end with `close`."""

    def __init__(
        self,
        settings: Settings,
        db: Database,
        ledger: Ledger,
        config: ConfigCache,
        channels: Channels,
        capacity: Capacity,
        planner: Planner,
        synthesizer: Synthesizer,
        audio: AudioStore,
        spool: Spool,
        space: FreeSpace,
        http_client: HttpClient,
    ) -> None:
        key_auth, disk = KeyAuth(db, settings.charge_wait_s), DiskExecutor()
        self._transcoder = Transcoder(files=_files(settings.data_folder / "audio", spool))
        self._whisper = EmbeddedWhisper(
            settings.data_folder,
            spool.folder,
            cores=usable_cores() // settings.workers,
            deadline_s=settings.call_deadline_s,
        )
        streamed = StreamedSpeech(
            settings=settings,
            ledger=ledger,
            config=config,
            channels=channels,
            capacity=capacity,
            planner=planner,
            synthesizer=synthesizer,
            audio=audio,
            workshop=Workshop(spool, self._transcoder, disk),
        )
        self._speech = AudioSpeechApi(
            key_auth=key_auth,
            db=db,
            config=config,
            channels=channels,
            capacity=capacity,
            streamed=streamed,
        )
        transcriber = Transcriber(
            settings=settings,
            ledger=ledger,
            config=config,
            channels=channels,
            http_client=http_client,
            whisper=self._whisper,
            disk=disk,
        )
        self._transcriptions = AudioTranscriptionsApi(
            key_auth=key_auth,
            transcriber=transcriber,
            spool=spool,
            space=space,
            disk=disk,
            upload_max_bytes=settings.upload_max_bytes,
        )

    def routes(self) -> Routes:
        """The handlers by exact path."""
        return {
            "/openai/v1/audio/speech": {"POST": self._speech.speak},
            "/openai/v1/audio/voices": {"GET": self._speech.voices},
            "/openai/v1/audio/transcriptions": {"POST": self._transcriptions.transcriptions},
            "/openai/v1/audio/translations": {"POST": self._transcriptions.translations},
        }

    async def close(self) -> None:
        """Ends the child processes."""
        await self._transcoder.close()
        await self._whisper.close()


def _files(audio: Path, spool: Spool) -> AllowedPaths:
    return AllowedPaths.of(reads=(audio,), writes=(spool.folder,))

"""The audio endpoints of /openai/v1, with the parts that only they need."""

from pathlib import Path

from myna.api.auth import KeyAuth
from myna.api.openai.audio_speech import AudioSpeechApi
from myna.channels import Channels
from myna.config import ConfigCache
from myna.engines.transcoder.transcoder import Transcoder
from myna.farm.capacity import Capacity
from myna.files.disk_threads import DiskExecutor
from myna.http.asgi import Routes
from myna.ledger import Ledger
from myna.sandbox.confinement import AllowedPaths
from myna.settings import Settings
from myna.speech.delivery import Workshop
from myna.speech.plan import Planner
from myna.speech.streamed import StreamedSpeech
from myna.speech.synthesize import Synthesizer
from myna.store.database import Database
from myna.store.files.audio import AudioStore
from myna.store.files.spool import Spool


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
    ) -> None:
        key_auth = KeyAuth(db, settings.charge_wait_s)
        self._transcoder = Transcoder(files=_files(settings.data_folder / "audio", spool))
        streamed = StreamedSpeech(
            settings=settings,
            ledger=ledger,
            config=config,
            channels=channels,
            capacity=capacity,
            planner=planner,
            synthesizer=synthesizer,
            audio=audio,
            workshop=Workshop(spool, self._transcoder, DiskExecutor()),
        )
        self._speech = AudioSpeechApi(
            key_auth=key_auth,
            db=db,
            config=config,
            channels=channels,
            capacity=capacity,
            streamed=streamed,
        )

    def routes(self) -> Routes:
        """The handlers by exact path."""
        return {
            "/openai/v1/audio/speech": {"POST": self._speech.speak},
            "/openai/v1/audio/voices": {"GET": self._speech.voices},
        }

    async def close(self) -> None:
        """Ends the child processes."""
        await self._transcoder.close()


def _files(audio: Path, spool: Spool) -> AllowedPaths:
    return AllowedPaths.of(reads=(audio,), writes=(spool.folder,))

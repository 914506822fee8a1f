"""The audio endpoints of /openai/v1, with the parts that only they need."""

from myna.api.auth import KeyAuth
from myna.api.openai.audio_speech import AudioSpeechApi
from myna.api.openai.audio_transcriptions import AudioTranscriptionsApi
from myna.billing.ledger import Ledger
from myna.channels.channels import Channels
from myna.config import ConfigCache
from myna.engines.media.media import Transcoder
from myna.farm.nodes import Capacity
from myna.gateway.transcription import EmbeddedWhisper, Transcriber
from myna.http.asgi import Routes
from myna.http.client import HttpClient
from myna.lib.files import DiskExecutor
from myna.lib.sandbox import AllowedPaths
from myna.settings import Settings, usable_cores
from myna.speech.delivery import DeliveryTools
from myna.speech.plan import Planner
from myna.speech.streamed import StreamedSpeech
from myna.speech.synthesize import Synthesizer
from myna.store.database import Database
from myna.store.files.audio import AudioStore
from myna.store.files.free_space import FreeSpace
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
        space: FreeSpace,
        http_client: HttpClient,
    ) -> None:
        self._settings = settings
        self._db = db
        self._config = config
        self._channels = channels
        self._capacity = capacity
        self._spool = spool
        self._space = space
        self._disk = DiskExecutor()
        self._transcoder = Transcoder(files=AllowedPaths.of(reads=(audio.folder,), writes=(spool.folder,)))
        self.whisper = EmbeddedWhisper(
            settings.data_folder,
            spool.folder,
            cores=max(1, usable_cores() // settings.workers),
            deadline_s=settings.call_deadline_s,
        )
        self._streamed = StreamedSpeech(
            settings=settings,
            ledger=ledger,
            config=config,
            channels=channels,
            capacity=capacity,
            planner=planner,
            synthesizer=synthesizer,
            audio=audio,
            tools=DeliveryTools(spool, self._transcoder, self._disk, settings.upstream_idle_s),
        )
        self._transcriber = Transcriber(
            settings=settings,
            ledger=ledger,
            config=config,
            channels=channels,
            http_client=http_client,
            whisper=self.whisper,
            disk=self._disk,
        )

    def routes(self, key_auth: KeyAuth) -> Routes:
        """The handlers by exact path."""
        speech = AudioSpeechApi(
            key_auth=key_auth,
            db=self._db,
            config=self._config,
            channels=self._channels,
            capacity=self._capacity,
            streamed=self._streamed,
        )
        transcriptions = AudioTranscriptionsApi(
            key_auth=key_auth,
            transcriber=self._transcriber,
            spool=self._spool,
            space=self._space,
            disk=self._disk,
            upload_max_bytes=self._settings.upload_max_bytes,
        )
        return {
            "/openai/v1/audio/speech": {"POST": speech.speak},
            "/openai/v1/audio/voices": {"GET": speech.voices},
            "/openai/v1/audio/transcriptions": {"POST": transcriptions.transcriptions},
            "/openai/v1/audio/translations": {"POST": transcriptions.translations},
        }

    async def close(self) -> None:
        """Ends the child processes."""
        await self._transcoder.close()
        await self.whisper.close()

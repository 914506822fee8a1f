"""The parts of the service that pages use."""

from collections.abc import Awaitable, Callable, Mapping

from msgspec import Struct

from myna.accounts.refusals import Refusals
from myna.accounts.sign_in.oidc.flow import Oidc
from myna.channels.channels import Channels
from myna.config import ConfigCache
from myna.engines.media.media import Inspector
from myna.farm.capacity import Capacity
from myna.gateway.chat.complete import Chat
from myna.gateway.relay.plan import Planner
from myna.gateway.relay.relay import Relay
from myna.http.client import HttpClient
from myna.office.model_fetching import ModelFetching
from myna.settings import Settings
from myna.speech.previews import Previews
from myna.speech.synthesize import Synthesizer
from myna.store.database import Database
from myna.store.files.named_files import AudioStore, SampleStore
from myna.store.files.storage import FreeSpace
from myna.store.group_commit import GroupCommit


class Parts(Struct, frozen=True, kw_only=True):
    """What `app.py` hands to the back office."""

    settings: Settings
    environ: Mapping[str, str]
    db: Database
    config: ConfigCache
    channels: Channels
    capacity: Capacity
    chat: Chat
    relay: Relay
    """Streams the answer of a channel, with the headers of a page: see `pages/try_stream.py`."""
    relay_planner: Planner
    synthesizer: Synthesizer
    audio: AudioStore
    samples: SampleStore
    recordings: Inspector
    previews: Previews
    space: FreeSpace
    refusals: Refusals
    http_client: HttpClient
    commits: GroupCommit
    missing: Callable[[], Awaitable[dict[str, str]]]
    """Why chat and speech are unavailable; "" if available. Raises DatabaseUnavailable."""
    models: ModelFetching
    whisper_missing: Callable[[], Awaitable[str]]
    """Why the embedded Whisper can't transcribe; "" if it can."""
    oidc: Oidc | None
    """Sign-in at the provider of the settings, if there is one."""

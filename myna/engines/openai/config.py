"""The configuration of a server with OpenAI's POST /audio/speech."""

import os
from pathlib import Path
from typing import Annotated

from msgspec import Meta, Struct

from myna.engines.config import VoiceIds, check_unique
from myna.engines.interface import EngineLimits
from myna.engines.openai.engine import OpenAISpeech
from myna.errors import ConfigError
from myna.http.client import HttpClient
from myna.lib.files import DiskExecutor
from myna.lib.net import is_base_url
from myna.wire.farm import AUDIO_MAX_BYTES


class OpenAIConfig(Struct, frozen=True, forbid_unknown_fields=True, tag_field="kind", tag="openai"):
    """A server with all of its voices, or with these. `key_env` names the variable that has its key."""

    url: str
    model: Annotated[str, Meta(min_length=1)] = "tts-1"
    key_env: str = ""
    voices: VoiceIds | None = None

    def build(self, limits: EngineLimits, folder: Path) -> OpenAISpeech:
        check_unique("voices", self.voices or ())
        if not is_base_url(self.url):
            raise ConfigError("url: must be http://… or https://… without a query.")
        key = os.environ.get(self.key_env, "").strip()
        if self.key_env and not key:
            raise ConfigError(f"key_env: {self.key_env} is not set, or empty.")
        return OpenAISpeech(
            HttpClient(connections_max=limits.processes),
            DiskExecutor(limits.processes),
            url=self.url,
            key=key or None,
            model=self.model,
            answer_max_bytes=AUDIO_MAX_BYTES,
            only=self.voices,
        )

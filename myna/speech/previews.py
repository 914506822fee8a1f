"""Previews of public voices: a sentence in each voice, spoken once by an engine of the site and kept.

A preview is not a call: it is free, and everyone hears the same file. Only engines that run in processes of
the site speak previews, not compute nodes and not servers that may charge the operator. A preview uses a slot
of the engine's queue, as a text of the account that asks for it.
"""

import asyncio
import hashlib
import logging
from dataclasses import dataclass, field
from pathlib import Path

from myna.channels.channels import Channels, SpeechChannel
from myna.engines.interface import Client, EngineFailed, EngineVoice, Utterance
from myna.engines.pool.admission import Slot
from myna.engines.voices import sample_text
from myna.errors import NotFound, Overloaded, Unavailable
from myna.speech.plan import check_sound
from myna.store.files.named_files import AudioStore
from myna.store.files.storage import FreeSpace
from myna.store.queries.config import Config

log = logging.getLogger(__name__)

SOUND_MAX_S = 60
NO_PREVIEW = "There is no preview of this voice."
NOT_SPOKEN = "The preview can't be spoken now; try again."


@dataclass(eq=False)
class Previews:
    """The previews in `folder`. An engine has `try_s` seconds for one. Engines write to the audio store only,
    so a preview is made there and moved."""

    folder: Path
    audio: AudioStore
    space: FreeSpace
    try_s: float
    _speaking: asyncio.Lock = field(default_factory=asyncio.Lock, init=False)

    def voices(self, channels: Channels, config: Config) -> frozenset[str]:
        """The ids of the voices that have a preview, or can have one now."""
        return frozenset(
            voice.voice_id for channel in _own(channels, config) if channel.up for voice in channel.voices
        )

    async def path(self, channels: Channels, config: Config, voice: EngineVoice, account_id: int) -> Path:
        """The file of a voice's preview, which is spoken now if there is none. Raises NotFound, DiskFull,
        Overloaded and Unavailable."""
        speaking = (one for one in _own(channels, config) if one.up)
        able = (one for one in speaking if any(v.voice_id == voice.voice_id for v in one.voices))
        channel = next(able, None)
        if channel is None:
            raise NotFound(NO_PREVIEW)
        text = sample_text(voice.language)
        spoken_by = (channel.engine.label, channel.engine_voice_id(voice.voice_id), text)
        path = self.folder / (hashlib.sha256("\0".join(spoken_by).encode()).hexdigest()[:32] + ".mp3")
        if not await asyncio.to_thread(path.exists):
            async with self._speaking:  # one at a time: a person can ask for all of them
                if not await asyncio.to_thread(path.exists):
                    await self._speak(channel, voice.voice_id, text, path, account_id)
        return path

    async def _speak(
        self, channel: SpeechChannel, voice_id: str, text: str, target: Path, account_id: int
    ) -> None:
        self.space.check()
        sound_s = check_sound(text, 1.0, SOUND_MAX_S)
        utterance = Utterance(
            text=text,
            voice_id=channel.engine_voice_id(voice_id),
            speed=1.0,
            sound_max_s=float(SOUND_MAX_S),
        )
        name, path = self.audio.new()
        with Slot() as slot:
            if channel.engine.admission is not None:
                refusal = slot.acquire(channel.engine.admission, account_id, sound_s, self.try_s)
                if refusal:
                    raise Overloaded(refusal)
            try:
                await channel.engine.speak(utterance, path, self.try_s, Client(account_id, sound_s))
            except EngineFailed as failure:
                log.warning("the preview of voice %r failed: %s", voice_id, failure)
                raise Unavailable(NOT_SPOKEN) from failure
        try:
            await asyncio.to_thread(_move, path, target)
        except BaseException:
            await self.audio.discard(name)
            raise


def _own(channels: Channels, config: Config) -> list[SpeechChannel]:
    """The channels whose engine runs in processes of the site."""
    return [channel for channel in channels.speech(config) if channel.engine.admission is not None]


def _move(path: Path, target: Path) -> None:
    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    path.replace(target)

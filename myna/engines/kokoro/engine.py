"""Kokoro: a neural voice in seven languages, spoken by several processes.

One process converts a text to phonemes, piece by piece (`text/pieces.py`, which loads espeak-ng). The others
speak the pieces (`child.py`, which loads the model). The pieces of one text are spoken at the same time and
returned in the order of the text.
"""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Annotated, Final

from msgspec import Meta, Struct, structs

from myna.engines.interface import (
    NO_CLIENT,
    Client,
    EngineBusy,
    EngineLimits,
    EngineVoice,
    NothingSpoken,
    SoundPart,
    StreamingEngine,
    UnsupportedUtterance,
    Utterance,
    WordTime,
)
from myna.engines.kokoro.job import (
    MODEL_FILE,
    RATE_HZ,
    KokoroModel,
    Piece,
    PieceJob,
    PieceSound,
    Provider,
    TextJob,
    TextPieces,
)
from myna.engines.kokoro.voices import VOICES, KokoroVoice, blended, style_file, with_styles
from myna.engines.pool.admission import Admission
from myna.engines.pool.child_main import path_bytes
from myna.engines.pool.engine import PoolEngine
from myna.engines.pool.pool import Pool
from myna.engines.voices import VoiceIds, check_unique
from myna.errors import ConfigError
from myna.lib.aio import cancel_and_wait
from myna.lib.sandbox import AllowedPaths

START_DEADLINE_S: Final = 120.0
_TEXT_S: Final = 30.0
_PACE: Final = 0.5
"""Seconds of work for an estimated second of sound until it is measured; about what one core takes."""
_TURN_S: Final = 60.0
"""The estimated seconds of sound of the longest piece: PIECE_SYMBOLS_MAX letters with their marks."""
PROCESSES_MAX: Final = 4
"""Each takes some 400 MB."""


class Kokoro(PoolEngine):
    """Speaks with several processes that have loaded the model. The limits' deadline is that of a piece."""

    label = "kokoro"
    blends = True

    def __init__(self, model: KokoroModel, voices: Sequence[KokoroVoice], limits: EngineLimits) -> None:
        self._voices = {voice.voice.voice_id: voice for voice in voices}
        self._model = model
        self._processes = processes = min(limits.processes, PROCESSES_MAX)
        self._texts_max = texts_max = processes + limits.queue_max
        self._texts = 0
        piece_limits = structs.replace(limits, processes=processes, queue_max=texts_max * processes)
        pool = Pool(
            "myna.engines.kokoro.child",
            PieceSound,
            piece_limits,
            setup=model,
            start_deadline_s=START_DEADLINE_S,
            retries=True,
        )
        admission = Admission(
            processes,
            limits.queue_max,
            limits.account_max,
            pace=_PACE,
            processes_per_text=processes,
            turn_s=_TURN_S,
        )
        super().__init__(pool, admission)
        self._text_pool = Pool(
            "myna.engines.kokoro.text.pieces",
            TextPieces,
            EngineLimits(processes=1, queue_max=texts_max, job_deadline_s=_TEXT_S),
            start_deadline_s=START_DEADLINE_S,
            retries=True,
        )
        self._pools.append(self._text_pool)

    @property
    def voices(self) -> tuple[EngineVoice, ...]:
        return tuple(voice.voice for voice in self._voices.values())

    async def _start(self, files: AllowedPaths | None) -> None:
        """Loads the model in each process."""
        await self._text_pool.start(None if files is None else AllowedPaths())
        await super()._start(self._model_files(files))

    def full(self) -> bool:
        return self._texts >= self._texts_max

    async def sound(
        self, utterance: Utterance, deadline_s: float, client: Client = NO_CLIENT
    ) -> AsyncGenerator[SoundPart, None]:
        """The sound of the text part by part, at RATE_HZ; the first part as soon as it is spoken. Raises
        EngineFailed. Close it: that ends the work."""
        if self.full():
            raise EngineBusy("The engine's queue is full.")
        self._texts += 1
        try:
            voice = self._voice_of(utterance)
            ends_at = asyncio.get_running_loop().time() + deadline_s
            async with aclosing(self._spoken(utterance, voice, ends_at, client)) as parts:
                async for part in parts:
                    yield part
        finally:
            self._texts -= 1

    async def _spoken(
        self, utterance: Utterance, voice: KokoroVoice, ends_at: float, client: Client
    ) -> AsyncGenerator[SoundPart, None]:
        """Speaks as many pieces at a time as there are processes, and yields them in order. The first piece
        for a client with `relay` is spoken alone: it is ready sooner."""
        pieces = await self._pieces(utterance, voice, ends_at, client)
        total, done = sum(len(piece.phonemes) for piece in pieces), 0
        tasks: deque[asyncio.Task[PieceSound]] = deque()
        following = iter(pieces)
        at_once = 1 if client.relay else self._processes
        begin_s = 0.0
        of_piece = Client(client.queue_key, disconnected=client.disconnected)
        try:
            for piece in pieces:
                while len(tasks) < at_once and (following_piece := next(following, None)):
                    style = voice.mixed if following_piece.mixed else voice.style
                    job = PieceJob(
                        following_piece.phonemes,
                        list(style),
                        utterance.speed,
                        following_piece.words,
                        following_piece.mixed,
                    )
                    left_s = ends_at - asyncio.get_running_loop().time()
                    work = self._pool.run(job, left_s, of_piece)
                    of_piece = Client(client.queue_key)  # the text is started with its first piece
                    tasks.append(asyncio.create_task(work))
                sound = await tasks.popleft()
                at_once = self._processes
                pause = bytes(2 * round(piece.pause_s / utterance.speed * RATE_HZ))
                words = [
                    WordTime(word.text, begin_s + word.begin_s, begin_s + word.end_s) for word in sound.words
                ]
                begin_s += (len(sound.pcm) + len(pause)) / 2 / RATE_HZ
                yield SoundPart(sound.pcm + pause, sound.work_s, words=words)
                done += len(piece.phonemes)
                if client.progress:
                    client.progress(done / total)
        finally:
            await cancel_and_wait(*tasks)

    async def _pieces(
        self, utterance: Utterance, voice: KokoroVoice, ends_at: float, client: Client
    ) -> list[Piece]:
        """The text in phonemes. Raises NothingSpoken if the model can speak nothing of it."""
        language = utterance.language or voice.voice.language
        job = TextJob(utterance.encodable, language, begin_early=client.relay is not None)
        left_s = ends_at - asyncio.get_running_loop().time()
        of_text = Client(client.queue_key, disconnected=client.disconnected)
        found = await self._text_pool.run(job, left_s, of_text)
        if found.unspoken and client.unspoken:
            client.unspoken(found.unspoken)
        if not found.pieces:
            raise NothingSpoken("This voice has no sound for the text.")
        return found.pieces

    def _voice_of(self, utterance: Utterance) -> KokoroVoice:
        voice = self._voices.get(utterance.voice_id) or blended(utterance.voice_id, self._voices)
        if voice is None or utterance.reference is not None:
            raise UnsupportedUtterance("This engine does not have this voice.")
        utterance.check_speed()
        return voice

    def _model_files(self, files: AllowedPaths | None) -> AllowedPaths | None:
        """The model's folder. Providers other than `cpu` open devices and files that are not known here."""
        if files is None or self._model.provider != "cpu":
            return None
        return AllowedPaths((self._model.folder,))


def has_vnni() -> bool:
    """Whether this processor has AVX-512 VNNI or AVX-VNNI. Others from Intel and AMD have a product of bytes
    with and without signs too, but its sums are limited to 16 bits. Only Linux tells it in this file, which
    the confined children can't read."""
    try:
        return "_vnni" in Path("/proc/cpuinfo").read_text(encoding="ascii", errors="replace")
    except OSError:
        return False


class KokoroConfig(Struct, frozen=True, forbid_unknown_fields=True, tag_field="kind", tag="kokoro"):
    """A Kokoro model in `folder`, with all of its voices or with these, each in `threads` threads."""

    folder: str
    voices: VoiceIds | None = None
    threads: Annotated[int, Meta(ge=1, le=64)] = 2
    provider: Provider = "cpu"

    @property
    def is_installed(self) -> bool:
        """Whether the folder has a model."""
        return (Path(self.folder) / MODEL_FILE).is_file()

    def build(self, limits: EngineLimits, folder: Path) -> StreamingEngine:
        check_unique("voices", self.voices or ())
        model = folder / self.folder
        if not self.folder or not (model / MODEL_FILE).is_file():
            raise ConfigError(
                f"folder: there is no {MODEL_FILE} in {model}; get the model: myna models get kokoro --to"
                f" {model}"
            )
        return Kokoro(
            KokoroModel(
                folder=path_bytes(model),
                threads=self.threads,
                provider=self.provider,
                signed=self.provider == "cpu" and has_vnni(),
            ),
            [with_styles(voice, model) for voice in self._chosen(model)],
            limits,
        )

    def _chosen(self, model: Path) -> list[EngineVoice]:
        """The voices of `voices`, or all whose file is there."""
        there = {voice.voice_id: voice for voice in VOICES if style_file(model, voice.voice_id).is_file()}
        for voice_id in self.voices or ():
            if voice_id not in there:
                raise ConfigError(f"voices: there is no {voice_id!r}; there are {', '.join(there)}.")
        if not there:
            raise ConfigError(f"folder: {model} has no voices; get the model again: myna models get kokoro.")
        return [there[voice_id] for voice_id in self.voices or there]

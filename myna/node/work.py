"""One job: speak it into a file of the node's, bring the file to the site, or say why not."""

import asyncio
import logging
import secrets
import time
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

from myna.disk_threads import Disk
from myna.engines.spoken import (
    EngineFailed,
    NothingSpoken,
    Reference,
    Spoken,
    UnfitUtterance,
    Utterance,
    UtteranceRefused,
)
from myna.node.engines import Engines, NoVoice
from myna.node.held import Holding
from myna.node.outage import Outage, Tries
from myna.node.references import References
from myna.node.site import Lost, NotAdmitted, Refused, Site, SiteAway, SiteFailed, TooOld
from myna.sound.durable import remove
from myna.wire import farm
from myna.wire.farm import AUDIO_MAX_BYTES, Failure

T = TypeVar("T")

REASON_MAX_CHARS: Final = 300
_HOPELESS: Final = (NothingSpoken, UnfitUtterance, UtteranceRefused)
"""What no other node would do better."""

log = logging.getLogger(__name__)


class Work:
    """How a node does its jobs; `folder` is for what isn't handed in yet, and holds nothing else."""

    def __init__(
        self, site: Site, engines: Engines, references: References, outage: Outage, folder: Path
    ) -> None:
        self._site, self._engines, self._references = site, engines, references
        self._outage, self.folder = outage, folder
        self._disk = Disk()
        folder.mkdir(mode=0o700, exist_ok=True)
        for left in folder.iterdir():  # by a node that was killed
            left.unlink()

    async def do(self, holding: Holding) -> None:
        """The job, done or reported. Cancelling ends it at once, and leaves nothing behind."""
        path = self.folder / f"{secrets.token_hex(16)}.mp3"
        try:
            await self._done(holding, path)
        except EngineFailed as failure:
            final = isinstance(failure, _HOPELESS) and not isinstance(failure, NoVoice)
            await self._report(holding, str(failure), final=final)
        except OSError as failure:
            reason = failure.strerror or type(failure).__name__
            await self._report(holding, f"The node's disk: {reason}.", final=False)
        except (Lost, NotAdmitted, TooOld) as refused:
            log.info("%s: dropped: %s", holding.name, refused)
        except Refused as refused:
            await self._report(holding, str(refused), final=False)
        except Exception:
            log.exception("%s: a fault of this program", holding.name)
            await self._report(holding, "A fault of the node's program; its log has it.", final=False)
        finally:
            await self._disk.cleared(partial(remove, path))

    async def hand_back(self, holding: Holding) -> None:
        """Tells the site, once, that the job isn't done because the node goes."""
        try:
            await self._site.fail(Failure(holding.held, "The node is shutting down.", handed_back=True))
        except SiteFailed as failed:
            log.warning("%s: not handed back: %s", holding.name, failed)
        else:
            log.info("%s: handed back", holding.name)

    async def _done(self, holding: Holding, path: Path) -> None:
        job = holding.job
        reference = await self._reference(job.reference) if job.reference else None
        started = time.monotonic()
        utterance = Utterance(job.text, job.voice_id, job.speed)

        def progress(fraction: float) -> None:
            holding.progress = min(max(fraction, holding.progress), 1.0)

        spoken = await self._engines.speak(utterance, path, reference, progress)
        took_s = time.monotonic() - started
        holding.progress = 1.0
        await self._hand_in(holding, path, spoken)
        log.info(
            "%s: %d characters, %.2f s of audio in %.2f s, real-time factor %.3f",
            *(holding.name, len(job.text), spoken.seconds, took_s, took_s / max(spoken.seconds, 0.001)),
        )

    async def _reference(self, wanted: farm.Reference) -> Reference:
        wav = await self._insist(lambda: self._references.get(self._site, wanted))
        return Reference(wav, wanted.transcript, wanted.language)

    async def _hand_in(self, holding: Holding, path: Path, spoken: Spoken) -> None:
        if spoken.size_bytes > AUDIO_MAX_BYTES:
            raise EngineFailed(f"The audio has {spoken.size_bytes} bytes, more than the site takes.")
        audio = await asyncio.to_thread(path.read_bytes)
        holding.on_its_way = True
        await self._insist(lambda: self._site.complete(holding.held, audio, spoken.sha256.hex()))

    async def _report(self, holding: Holding, reason: str, *, final: bool) -> None:
        """Tells the site that the job failed here; whether that is noted or not, it is over for the node."""
        log.warning("%s: failed%s: %s", holding.name, " for good" if final else "", reason)
        failure = Failure(holding.held, reason[:REASON_MAX_CHARS], final=final)
        try:
            await self._insist(lambda: self._site.fail(failure))
        except SiteFailed as failed:
            log.info("%s: the failure isn't noted: %s", holding.name, failed)

    async def _insist(self, ask: Callable[[], Awaitable[T]]) -> T:
        """Asks the site until it answers. That ends with the lease, which ends with the site's silence."""
        tries = Tries(self._outage)
        try:
            while True:
                try:
                    answer = await ask()
                except SiteAway as away:
                    await asyncio.sleep(tries.failed(away))
                else:
                    tries.well()
                    return answer
        finally:
            tries.give_up()

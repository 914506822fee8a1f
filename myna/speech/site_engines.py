"""The engines of MYNA_SPEECH: how many processes they have, their start and their end.

Several workers share engines that run in another process: see `shared_engines.py`.
"""

import asyncio
import contextlib
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from myna.engines.interface import Engine, EngineFailed, EngineLimits
from myna.engines.registry import AUTO, ESPEAK, site_engines
from myna.lib.aio import cancel_and_wait
from myna.lib.sandbox import AllowedPaths
from myna.lib.telemetry import metrics
from myna.settings import Settings, usable_cores
from myna.speech.shared_engines import SOCKET, SharedEngine

log = logging.getLogger(__name__)

PROCESSES_MIN: Final = 2
"""Long texts must leave a process of the engine for short texts."""
RETRY_FIRST_S: Final = 10.0
RETRY_MAX_S: Final = 300.0
WATCH_S: Final = 2.0


def speech_engines(settings: Settings, environ: Mapping[str, str]) -> dict[str, Engine]:
    """The engines of MYNA_SPEECH, not started, by the name of their channel: those of the host, if the
    environment names its socket. Raises ConfigError."""
    processes = settings.speech_processes or max(PROCESSES_MIN, usable_cores())
    limits = EngineLimits(
        processes=processes,
        queue_max=settings.speech_queue_max * settings.workers,
        job_deadline_s=max(settings.call_deadline_s, settings.stream_deadline_s),
        account_max=settings.speech_account_max,
    )
    engines = site_engines(settings.speech, settings.data_folder, limits)
    if SOCKET not in environ:
        return engines
    return {
        name: SharedEngine(name, engine, environ[SOCKET], workers=settings.workers, files_max=processes)
        for name, engine in engines.items()
    }


class SiteEngines:
    """Starts and ends the engines. Where another one can speak instead, or each `may_fail`, one that
    does not start is tried again; `down` says why it has not started, by the name of its channel."""

    def __init__(
        self, settings: Settings, engines: Mapping[str, Engine], audio: Path, *, may_fail: bool = False
    ) -> None:
        self._settings = settings
        self._engines = engines
        self._may_fail = may_fail
        self._files = AllowedPaths.of(writes=(audio,))
        self._tasks: list[asyncio.Task[None]] = []
        self.down: dict[str, str] = {}

    async def start(self) -> None:
        """Raises EngineFailed, unless another engine can speak instead, or each `may_fail`."""
        async with contextlib.AsyncExitStack() as undo:
            undo.push_async_callback(self.close)
            started = await asyncio.gather(*map(self._start, self._engines), return_exceptions=True)
            for failure in filter(None, started):
                raise failure
            undo.pop_all()
        self._tasks += [asyncio.create_task(self._retry(name), name=f"start-{name}") for name in self.down]
        self._tasks.append(asyncio.create_task(self._watch(), name="engines"))

    async def close(self) -> None:
        await cancel_and_wait(*self._tasks)
        await asyncio.gather(*(engine.close() for engine in self._engines.values()))

    async def _start(self, name: str) -> None:
        try:
            await self._engines[name].start(self._files)
        except EngineFailed as failure:
            if not self._may_fail and (self._settings.speech != AUTO or name == ESPEAK):
                raise
            log.warning("%s does not start: %s", name, failure)
            self.down[name] = str(failure)

    async def _retry(self, name: str) -> None:
        pause_s = RETRY_FIRST_S
        while name in self.down:
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, RETRY_MAX_S)
            try:
                await self._engines[name].start(self._files)
            except EngineFailed as failure:
                self.down[name] = str(failure)
            else:
                self.down.pop(name, None)
                log.info("%s has started", name)

    async def _watch(self) -> None:
        while True:
            for name, engine in self._engines.items():
                metrics.ENGINE_UP.labels(name).set(engine.up())
                if engine.up():  # that of another process has started at one of that one's tries
                    self.down.pop(name, None)
            await asyncio.sleep(WATCH_S)

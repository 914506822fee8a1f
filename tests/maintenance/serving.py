"""The parts of a serving process on the books of a test. No periodic job is started."""

from pathlib import Path

from myna.config import ConfigCache
from myna.server.service import Service
from myna.settings import Settings
from myna.store.database import Database

AUDIT_EVERY_S = 60.0


async def service_on(db: Database, folder: Path, **environ: str) -> Service:
    settings = Settings(data=str(folder), chat_url="parrot:", speech="none", audit_every_s=AUDIT_EVERY_S)
    return Service(
        settings=settings,
        environ=environ,
        db=db,
        config=await ConfigCache.read(db),
        commits=Service.commits_of(db, settings),
    )

"""What each engine of node.toml can do, found out by starting it and letting it speak."""

from collections.abc import Sequence
from pathlib import Path

from myna.engines.spoken import EngineDown, EngineFailed
from myna.node.engines import Engine, started, too_many
from myna.node.trial import trial


async def check(engines: Sequence[Engine], folder: Path) -> list[dict[str, object]]:
    """A row for each engine: whose voice it spoke a sentence in (empty: a clone's), in how many seconds, and
    how many times as fast as one can listen. One that fails has the reason instead. They run one after
    another, so that each has the machine for itself. The sentences are written to `folder` and removed."""
    return [await _row(engines[:count], folder) for count in range(1, len(engines) + 1)]


async def _row(engines: Sequence[Engine], folder: Path) -> dict[str, object]:
    """Of the last of these; the others have been tried."""
    engine = engines[-1]
    row: dict[str, object] = {"engine": engine.label, "ok": False, "voice": ""}
    try:
        await started(engine)
        if said := too_many(engines):
            raise EngineDown(f"{engine.label}: {said}")
        tried = await trial(engine, folder)
    except EngineFailed as failure:
        return {**row, "voices": [], "clones": [], "seconds": 0.0, "speed": 0.0, "error": str(failure)}
    finally:
        await engine.close()
    return {
        "engine": engine.label,
        "ok": True,
        "voice": tried.voice_id,
        "voices": [voice.voice_id for voice in engine.voices],
        "clones": list(engine.clones),
        "seconds": round(tried.took_s, 3),
        "speed": round(tried.speed, 1),
        "error": "",
    }

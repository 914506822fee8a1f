"""What each engine of node.toml can do, found out by starting it and letting it speak."""

import tempfile
from collections.abc import Sequence
from pathlib import Path

from myna.engines.spoken import EngineFailed
from myna.node.engines import Engine, started
from myna.node.trial import trial


async def check(engines: Sequence[Engine]) -> list[dict[str, object]]:
    """A row for each engine: whose voice it spoke a sentence in (empty: a clone's), in how many seconds, and
    how many times as fast as one can listen. One that fails has the reason instead. They run one after
    another, so that each has the machine for itself."""
    with tempfile.TemporaryDirectory(prefix="myna-node-") as folder:
        return [await _row(engine, Path(folder)) for engine in engines]


async def _row(engine: Engine, folder: Path) -> dict[str, object]:
    row: dict[str, object] = {"engine": engine.label, "ok": False, "voice": ""}
    try:
        await started(engine)
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

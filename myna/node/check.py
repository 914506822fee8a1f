"""`node check`: starts each engine of node.toml and lets it speak a sentence."""

from collections.abc import Sequence
from pathlib import Path

from myna.engines.interface import Engine, EngineFailed, EngineUnavailable
from myna.lib.sandbox import AllowedPaths
from myna.node.benchmark import trial
from myna.node.engines import start, too_many_voices


async def check(engines: Sequence[Engine], folder: Path) -> list[dict[str, object]]:
    """A row for each engine: the voice it spoke in (empty for a clone), the seconds it took, and its speed as
    a multiple of real time; for an engine that failed, the error. Only one engine runs at a time, so none
    slows another. The sentences are written to `folder` and removed."""
    return [await _row(engines[:count], folder) for count in range(1, len(engines) + 1)]


async def _row(engines: Sequence[Engine], folder: Path) -> dict[str, object]:
    """The row of the last engine. The others count towards the limit of voices."""
    engine = engines[-1]
    row: dict[str, object] = {"engine": engine.label, "ok": False, "voice": ""}
    try:
        await start(engine, AllowedPaths.of(writes=(folder,)))
        if excess := too_many_voices(engines):
            raise EngineUnavailable(f"{engine.label}: {excess}")
        result = await trial(engine, folder)
    except EngineFailed as failure:
        return {**row, "voices": [], "clones": [], "seconds": 0.0, "speed": 0.0, "error": str(failure)}
    finally:
        await engine.close()
    return {
        "engine": engine.label,
        "ok": True,
        "voice": result.voice_id,
        "voices": [voice.voice_id for voice in engine.voices],
        "clones": list(engine.clones),
        "seconds": round(result.took_s, 3),
        "speed": round(result.speed, 1),
        "error": "",
    }

"""myna models add: the test of a model that a compute node will speak with."""

import asyncio
import json as json_text
import tempfile
import time
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from myna.cli.console import Json, Whole, show
from myna.engines.interface import EngineFailed, EngineLimits, EngineVoice, SpeechResult, Utterance
from myna.engines.sherpa.engine import THREADS_MAX, Sherpa, SherpaConfig
from myna.errors import CommandError, ConfigError
from myna.lib.sandbox import AllowedPaths
from myna.node.benchmark import reference_voice, sentence

TRIAL_S = 600.0
NAMED_MAX = 10


def add(
    folder: Annotated[Path, Parameter(help="The folder of the unpacked model.")],
    *,
    threads: Annotated[Whole, Parameter(help=f"Threads of the model, 1 to {THREADS_MAX}.")] = 2,
    save: Annotated[Path | None, Parameter(help="Save the spoken sentence as this mp3 file.")] = None,
    json: Json = False,
) -> None:
    """Try a downloaded and unpacked model: load it, speak a sentence, print its block for node.toml."""
    if not 1 <= threads <= THREADS_MAX:
        raise ConfigError(f"The threads must be from 1 to {THREADS_MAX}.")
    model = SherpaConfig(str(folder.resolve()), threads).model(Path())
    engine = Sherpa(model, EngineLimits(processes=1, queue_max=1, job_deadline_s=TRIAL_S))
    with tempfile.TemporaryDirectory() as scratch:
        said = Path(scratch, "said.mp3")
        try:
            spoken, took_s = asyncio.run(_tried(engine, said))
        except EngineFailed as failure:
            raise CommandError(f"The model doesn't speak: {failure}") from None
        if save is not None:
            _save(said, save)
    found = {
        "family": model.family,
        "languages": sorted({voice.language for voice in engine.voices} | set(engine.clones)),
        "speakers": engine.info.speakers if engine.voices else 0,
        "clones": list(engine.clones),
        "rate_hz": engine.info.rate_hz,
        "seconds": round(spoken.seconds, 2),
        "real_time_factor": round(took_s / spoken.seconds, 3),
    }
    block = _block(model.folder, threads, engine.voices)
    show({**found, "node_toml": block} if json else found, json)
    if not json:
        print(f"\nFor node.toml:\n\n{block}", end="")


async def _tried(engine: Sherpa, path: Path) -> tuple[SpeechResult, float]:
    """Speaks a sentence to `path`. Also returns how many seconds that took."""
    try:
        await engine.start(AllowedPaths.of(writes=(path.parent,)))
        voice_id = engine.voices[0].voice_id if engine.voices else ""
        language = engine.voices[0].language if engine.voices else engine.clones[0]
        reference = None if engine.voices else await reference_voice(language, path.with_suffix(".wav"))
        utterance = Utterance(sentence(language), voice_id, 1.0, reference=reference)
        began = time.monotonic()
        spoken = await engine.speak(utterance, path, TRIAL_S)
        return spoken, time.monotonic() - began
    finally:
        await engine.close()


def _save(spoken: Path, save: Path) -> None:
    try:
        save.write_bytes(spoken.read_bytes())
    except OSError as error:
        raise CommandError(f"The audio can't be written to {save}: {error.strerror}.") from None


def _block(folder: str, threads: int, voices: tuple[EngineVoice, ...]) -> str:
    """A block for node.toml. It lists up to NAMED_MAX voices, so that they can be renamed."""
    lines = ["[[engine]]", 'kind = "sherpa"', f"folder = {_quoted(folder)}", f"threads = {threads}"]
    for speaker, voice in enumerate(voices if len(voices) <= NAMED_MAX else ()):
        entries: dict[str, Any] = {
            "id": voice.voice_id,
            "speaker": speaker,
            "name": voice.name,
            "gender": voice.gender,
            "language": voice.language,
        }
        lines += ["", "[[engine.voice]]", *(f"{name} = {_quoted(value)}" for name, value in entries.items())]
    return "\n".join(lines) + "\n"


def _quoted(value: str | int) -> str:
    """A TOML value. Basic strings of TOML are those of JSON."""
    return json_text.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")

"""myna models list|add"""

import asyncio
import json as json_text
import tempfile
import time
import wave
from pathlib import Path
from typing import Any

import msgspec
import soundfile
from cyclopts import App

from myna.cli.console import Json, Whole, show, show_rows
from myna.engines.espeak.engine import Espeak
from myna.engines.interface import EngineFailed, EngineVoice, SpeechResult, Utterance, VoiceReference
from myna.engines.sherpa import models as sherpa_models
from myna.engines.sherpa.engine import Sherpa
from myna.engines.sherpa.known_models import KNOWN
from myna.errors import CommandError, ConfigError
from myna.sandbox.confinement import AllowedPaths

app = App(name="models", help="Neural voices: models of sherpa-onnx that a compute node can speak with.")

SENTENCES = {
    "zh": "今天天气很好，我们一起去公园散步吧。",
    "en": "The weather is lovely today, so let us walk in the park.",
}
"""The sentences of the trial, and of the reference voice that a cloning model imitates."""
EMBEDDED = {"zh": "zh-female-1", "en": "en-us-female-1"}
TRIAL_S = 600.0
NAMED_MAX = 10


@app.command(name="list")
def list_known(*, json: Json = False) -> None:
    """List known models with their download addresses. Nothing is downloaded."""
    rows = [
        {**msgspec.structs.asdict(model), "languages": list(model.languages), "beside": list(model.beside)}
        for model in KNOWN
    ]
    if json:
        show_rows(rows, json, empty="")
        return
    for row in rows:  # an address in a narrow column can't be copied
        show(row, json)
        print()


@app.command
def add(folder: Path, *, threads: Whole = 2, save: Path | None = None, json: Json = False) -> None:
    """Try a downloaded and unpacked model: load it, speak a sentence, print its block for node.toml."""
    if not 1 <= threads <= sherpa_models.THREADS_MAX:
        raise ConfigError(f"The threads must be from 1 to {sherpa_models.THREADS_MAX}.")
    model = msgspec.structs.replace(sherpa_models.inspect(folder.resolve()), threads=threads)
    engine = Sherpa(model, queue_max=1, job_deadline_s=TRIAL_S)
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
        language = _language(engine)
        reference = await _reference(language, path.with_suffix(".wav")) if engine.clones else None
        voice_id = engine.voices[0].voice_id if engine.voices else ""
        began = time.monotonic()
        spoken = await engine.speak(
            Utterance(SENTENCES[language], voice_id, 1.0), path, TRIAL_S, reference=reference
        )
        return spoken, time.monotonic() - began
    finally:
        await engine.close()


def _language(engine: Sherpa) -> str:
    codes = engine.clones or (engine.voices[0].language,)
    return "zh" if any(code.startswith("zh") for code in codes) else "en"


async def _reference(language: str, wav: Path) -> VoiceReference:
    """A sample to clone for the trial, spoken by the embedded engine."""
    said = wav.with_name("reference.mp3")
    espeak = Espeak(processes=1, queue_max=1, job_deadline_s=TRIAL_S)
    try:
        await espeak.start(AllowedPaths.of(writes=(said.parent,)))
        await espeak.speak(Utterance(SENTENCES[language], EMBEDDED[language], 1.0), said, TRIAL_S)
    finally:
        await espeak.close()
    await asyncio.to_thread(_decode, said, wav)
    return VoiceReference(wav, SENTENCES[language], language)


def _decode(mp3: Path, wav: Path) -> None:
    sound, rate_hz = soundfile.read(mp3, dtype="int16")
    with wave.open(str(wav), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(rate_hz)
        file.writeframes(sound.tobytes())


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

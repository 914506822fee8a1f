"""myna models get|list|remove|add"""

import asyncio
import json as json_text
import signal
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Annotated, Any, Self

from cyclopts import App, Parameter
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

from myna.cli.console import Json, Row, Whole, Wide, owner_of_files, read_settings, show, show_rows
from myna.engines.interface import EngineFailed, EngineLimits, EngineVoice
from myna.engines.models import install
from myna.engines.models.progress import ProgressFile, Report
from myna.engines.models.published import MODELS, Model, folder_of, missing
from myna.engines.sherpa.engine import THREADS_MAX, Sherpa, SherpaConfig
from myna.engines.sherpa.models import KNOWN, KnownModel
from myna.errors import CommandError, ConfigError
from myna.lib.sandbox import AllowedPaths
from myna.node.benchmark import TRIAL_MAX_S, BenchmarkResult, trial
from myna.node.engines import start

app = App(name="models", help="Models: fetch and list them, and test a voice for a compute node.")
Name = Annotated[str, Parameter(help="The name of a model in `myna models list`.")]
MB = 1_000_000
NOWHERE = Path()
INTERRUPTED = 130
"""The exit code after Ctrl-C."""


class ProgressBar:
    """Shows steps that are measured in bytes. Silent if `quiet`."""

    def __init__(self, *, quiet: bool) -> None:
        self._console = Console(stderr=True, quiet=quiet, highlight=False, markup=False, soft_wrap=True)
        self._bar = Progress(
            TextColumn("{task.description}", markup=False), BarColumn(), DownloadColumn(),
            TransferSpeedColumn(), console=self._console, transient=True,
            disable=not self._console.is_terminal,
        )  # fmt: skip

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()

    def say(self, line: str) -> None:
        """Prints a line."""
        self._console.print(f"myna: {line}")

    def begin(self, what: str, size_bytes: int) -> None:
        """A new step begins, of this size. It replaces the step before it."""
        if not self._console.is_terminal:
            self.say(f"{what} ({size_bytes / MB:.0f} MB)")
        for task in self._bar.task_ids:
            self._bar.remove_task(task)
        self._bar.add_task(what, total=size_bytes)

    def advance(self, size_bytes: int) -> None:
        """So much more of the step is done."""
        for task in self._bar.task_ids:
            self._bar.advance(task, size_bytes)


@app.command
def get(
    name: Name,
    /,
    *,
    from_: Annotated[
        str | None,
        Parameter(name="--from", help="release, packages, or a file or folder; default: the first two."),
    ] = None,
    to: Annotated[Path | None, Parameter(help="The model's folder, instead of the data folder's.")] = None,
    progress: Annotated[
        Path | None, Parameter(help="Keep the progress in this file, as JSON, for a program that follows it.")
    ] = None,
    json: Json = False,
) -> int:
    """Fetch a published model, check every file, and put it into the data folder."""
    model = _published(name)
    if from_ == "":
        raise CommandError("--from: is empty; it is release, packages, or a file or folder.")
    folder, owner = (to, None) if to else _in_data_folder(name)
    for number in (signal.SIGTERM, signal.SIGHUP):  # like Ctrl-C: the staging folder is tidied
        signal.signal(number, signal.default_int_handler)
    try:
        with _reported(progress, json) as report:
            got = install.get(model, folder, from_ or "", report, owner)
    except KeyboardInterrupt:
        print(f"myna: interrupted; 'myna models get {name}' tries again.", file=sys.stderr)
        return INTERRUPTED
    fetched = {
        "model": name,
        "folder": str(got.folder),
        "source": got.source,
        "size_mb": round(model.size_bytes / MB),
        "seconds": round(got.seconds, 1),
    }
    show(fetched if to else {**fetched, "next": model.next_step}, json)
    return 0


@app.command
def remove(name: Name, /, *, json: Json = False) -> None:
    """Remove a model from the data folder, and what an interrupted download left."""
    model = _published(name)
    folder, _ = _in_data_folder(name)
    with ProgressBar(quiet=json) as report:
        if not install.remove(model, folder, report):
            raise CommandError(
                f"{name} is not in {folder}: nothing was removed. Delete a folder of --to by hand."
            )
    show({"model": name, "removed": str(folder)}, json)


@app.command(name="list")
def list_known(*, wide: Wide = False, json: Json = False) -> None:
    """List the models that can be fetched or are there, and others with their addresses."""
    data_folder = read_settings().data_folder
    rows = [_row(model, folder_of(data_folder, name)) for name, model in MODELS.items()]
    rows += [_row(model) for model in KNOWN]
    show_rows(rows, json, empty="", brief=("name", "kind", "size_mb", "state", "languages"), wide=wide)


@contextmanager
def _reported(file: Path | None, json: bool) -> Iterator[Report]:
    """The progress in the file, or else on the terminal."""
    if file is None:
        with ProgressBar(quiet=json) as bar:
            yield bar
        return
    report = ProgressFile(file)
    try:
        yield report
    except CommandError as error:
        report.end(str(error))
        raise
    except BaseException:
        report.end("It was interrupted.")
        raise
    report.end("")


def _published(name: str) -> Model:
    if name in MODELS:
        return MODELS[name]
    for known in KNOWN:
        if known.name == name:
            raise ConfigError(
                f"{name} is a model of sherpa-onnx, which you download yourself: unpack {known.url} and test"
                " it with 'myna models add FOLDER'."
            )
    raise ConfigError(f"There is no model {name!r} to fetch; there is: {', '.join(MODELS)}.")


def _in_data_folder(name: str) -> tuple[Path, tuple[int, int] | None]:
    """The folder for a model, and the user and group that must own it. Creates the data folder."""
    settings = read_settings()
    try:
        settings.data_folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(
            f"MYNA_DATA: {settings.data_folder} can't be written to: {error.strerror}."
        ) from None
    return folder_of(settings.data_folder, name), owner_of_files(settings)


def _row(model: Model | KnownModel, folder: Path = NOWHERE) -> Row:
    """A model with its state: installed, incomplete or absent, or "by hand" with its addresses."""
    row = {
        "name": model.name,
        "kind": model.kind,
        "size_mb": model.size_mb if isinstance(model, KnownModel) else round(model.size_bytes / MB),
        "licence": model.licence,
        "languages": list(model.languages),
    }
    if isinstance(model, KnownModel):
        return {**row, "state": "by hand", "get": model.url, "beside": list(model.beside), "folder": ""}
    lacking = missing(model, folder)
    state = "incomplete" if lacking and folder.is_dir() else "absent" if lacking else "installed"
    get = f"myna models get {model.name}"
    return {**row, "state": state, "get": get, "beside": [], "folder": str(folder)}


NAMED_MAX = 10


@app.command
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
    engine = Sherpa(model, EngineLimits(processes=1, queue_max=1, job_deadline_s=TRIAL_MAX_S))
    with tempfile.TemporaryDirectory() as scratch:
        said = Path(scratch, "said.mp3")
        try:
            spoken = asyncio.run(_tried(engine, said))
        except EngineFailed as failure:
            reason = str(failure).removeprefix(f"{engine.label}: ")
            raise CommandError(f"The model doesn't speak: {reason}") from None
        if save is not None:
            _save(said, save)
    found = {
        "family": model.family,
        "languages": sorted({voice.language for voice in engine.voices} | set(engine.clones)),
        "speakers": engine.info.speakers if engine.voices else 0,
        "clones": list(engine.clones),
        "rate_hz": engine.info.rate_hz,
        "seconds": round(spoken.audio_s, 2),
        "real_time_factor": round(1 / spoken.speed, 3),
    }
    block = _block(model.folder, threads, engine.voices)
    show({**found, "node_toml": block} if json else found, json)
    if not json:
        print(f"\nFor node.toml:\n\n{block}", end="")


async def _tried(engine: Sherpa, path: Path) -> BenchmarkResult:
    """Speaks a sentence to `path`."""
    try:
        await start(engine, AllowedPaths.of(writes=(path.parent,)))
        return await trial(engine, path.parent, path)
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

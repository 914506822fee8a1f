"""Fetches a published model for the back office, by the command that an operator would type.

The service itself downloads nothing: it starts `myna models get` as another process, which has no key and no
database address in its environment and continues if the service stops. Any command that works on a model has
the lock of its folder and writes its progress into a file, so all processes of a machine show the same.
"""

import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final, Literal

from filelock import FileLock, Timeout
from msgspec import Struct

from myna.engines.models import progress
from myna.engines.models.progress import Progress, client_environ
from myna.engines.models.published import FOLDER, MODELS, Model, folder_of, missing
from myna.errors import CommandError

START_MAX_S: Final = 30.0
"""So long after its start a command counts as running, though it has no lock yet."""
REMOVE_MAX_S: Final = 120.0


class ModelState(Struct, frozen=True):
    """A model and what a command does with it now."""

    model: Model
    state: Literal["installed", "incomplete", "absent"]
    running: bool
    progress: Progress


class ModelFetching:
    """The commands on the models of one data folder. Its methods block, so they belong in a thread."""

    def __init__(self, data_folder: Path, environ: Mapping[str, str]) -> None:
        self._data_folder = data_folder
        self._environ = client_environ(environ) | {"MYNA_DATA": str(data_folder)}
        self._started: dict[str, tuple[subprocess.Popen[bytes], float]] = {}

    def states(self) -> list[ModelState]:
        """All published models."""
        return [self.state(name) for name in MODELS]

    def state(self, name: str) -> ModelState:
        """A published model. Raises CommandError for another name."""
        if name not in MODELS:
            raise CommandError(
                "There is no model {name!r} to fetch; there is: {models}.",
                name=name,
                models=", ".join(MODELS),
            )
        model = MODELS[name]
        folder = folder_of(self._data_folder, name)
        lacking = missing(model, folder)
        return ModelState(
            model=model,
            state="installed" if not lacking else "incomplete" if folder.is_dir() else "absent",
            running=self._running(name),
            progress=progress.read(self._progress_file(name)),
        )

    def start(self, name: str) -> None:
        """Starts `myna models get`. Raises CommandError if a command works on the model already."""
        if self.state(name).running:
            raise CommandError("A command works on {name} already.", name=name)
        file = self._progress_file(name)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.unlink(missing_ok=True)
        command = self._command("get", name, "--progress", str(file))
        nowhere = subprocess.DEVNULL
        process = subprocess.Popen(  # noqa: S603  of this interpreter, with a published name
            command, env=self._environ, stdin=nowhere, stdout=nowhere, stderr=nowhere, start_new_session=True
        )
        self._started[name] = process, time.monotonic()

    def remove(self, name: str) -> None:
        """Runs `myna models remove`. Raises CommandError."""
        if self.state(name).running:
            raise CommandError("A command works on {name} already.", name=name)
        try:
            ended = subprocess.run(  # noqa: S603  likewise
                self._command("remove", name), env=self._environ, stdin=subprocess.DEVNULL, check=False,
                capture_output=True, timeout=REMOVE_MAX_S,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            raise CommandError("{name} was not removed in time.", name=name) from None
        if ended.returncode:
            lines = ended.stderr.decode(errors="replace").strip().splitlines() or ["It was not removed."]
            raise CommandError(lines[-1].removeprefix("myna: "))
        self._progress_file(name).unlink(missing_ok=True)

    def _command(self, *words: str) -> list[str]:
        return [sys.executable, "-m", "myna", "models", *words]

    def _progress_file(self, name: str) -> Path:
        return self._data_folder / FOLDER / f".{name}.progress"

    def _running(self, name: str) -> bool:
        if name in self._started:
            process, at = self._started[name]
            if process.poll() is None and time.monotonic() < at + START_MAX_S:
                return True
        return _locked(self._data_folder / FOLDER / f".{name}.lock")


def _locked(file: Path) -> bool:
    """Whether a command has locked the file."""
    if not file.exists():
        return False
    lock = FileLock(file)
    try:
        lock.acquire(blocking=False)
    except (Timeout, OSError):
        return True
    lock.release()
    return False

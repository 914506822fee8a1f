"""The voices of the demo: the neural model, which the first run fetches, or the small ones of espeak."""

import os
import time
from collections.abc import Mapping

from demo.kokoro_model import cached, ensured, is_cached
from demo.output import Output
from myna.cli.models import ProgressBar
from myna.engines.models import install
from myna.engines.models.published import KOKORO, folder_of, installed
from myna.errors import CommandError, ConfigError
from myna.settings import Settings

VARIABLE, NEURAL, SMALL = "VOICE", "kokoro", "espeak"
_MB = 1_000_000


def choose_voice(settings: Settings, environ: Mapping[str, str], output: Output) -> dict[str, str]:
    """Puts the model into the data folder, unless the user chose other voices. Returns variables for the
    service. Raises ConfigError for another value of VOICE."""
    wanted = environ.get(VARIABLE, "") or NEURAL
    if wanted not in (NEURAL, SMALL):
        raise ConfigError(f"{VARIABLE}: must be {NEURAL} or {SMALL}.")
    if settings.speech != "auto":
        return {}
    if wanted == SMALL:
        output.say(f"{VARIABLE}={SMALL}: the small voices of espeak-ng, without a download.")
        return {"MYNA_SPEECH": SMALL}
    if not installed(settings.data_folder, KOKORO.name):
        _install(settings, output)
    return {}


def _install(settings: Settings, output: Output) -> None:
    """Fetches the model to the user's cache and copies it to the data folder. Says why, where that fails."""
    output.step("A neural voice, Kokoro-82M", "myna models get kokoro")
    if not is_cached():
        output.say(
            f"The first run fetches it, {round(KOKORO.size_bytes / _MB)} MB: 15 s on a fast line, minutes on"
            f" a slow one. `{VARIABLE}={SMALL} make demo` does without."
        )
    began = time.monotonic()
    try:
        with ProgressBar(quiet=False) as progress:
            ensured(progress)
            folder = folder_of(settings.data_folder, KOKORO.name)
            install.get(KOKORO, folder, str(cached()), progress)
    except CommandError as error:
        output.say(str(error), "yellow")
        output.say("So the small voices of espeak-ng speak. The next run tries again.", "yellow")
        return
    shown = os.path.relpath(folder)
    output.rows(("in", f"{shown} ({time.monotonic() - began:.1f} s)"), ("kept for others in", str(cached())))

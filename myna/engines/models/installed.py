"""The models that `myna models get` knows, and which of them a site has."""

from pathlib import Path
from typing import Final

from myna.engines.models.catalog import Model, folder_of, missing
from myna.engines.models.kokoro import KOKORO
from myna.engines.models.whisper import WHISPER

MODELS: Final[dict[str, Model]] = {model.name: model for model in (KOKORO, WHISPER)}


def installed(data_folder: Path, name: str) -> Path | None:
    """The folder of the model if it is complete. Names and sizes are compared, contents are not read.
    Raises KeyError for a name that is not in MODELS."""
    folder = folder_of(data_folder, name)
    return None if missing(MODELS[name], folder) else folder

"""espeak-ng itself, for the programs that may load it: it is under the GPL and can crash or hang.

A data path of over 160 characters fails without a word (espeak-ng 1.52), so the path is "." in the right
folder.
"""

import ctypes
import os
from pathlib import Path
from typing import Any

import espeakng_loader

from myna.engines.spoken import EngineDown

# speak_lib.h
_SYNCHRONOUS, _DONT_EXIT, _BUFFER_MS = 2, 0x8000, 200


def load() -> tuple[Any, int]:
    """The library, ready, and its samples a second; the working folder is the one with its data from now on.

    Once in a process. Raises EngineDown.
    """
    os.chdir(Path(espeakng_loader.get_data_path()).parent)
    library: Any = ctypes.CDLL(espeakng_loader.get_library_path())
    rate_hz: int = library.espeak_Initialize(_SYNCHRONOUS, _BUFFER_MS, b".", _DONT_EXIT)
    if rate_hz <= 0:
        raise EngineDown("espeak-ng doesn't start; its data may be missing.")
    return library, rate_hz

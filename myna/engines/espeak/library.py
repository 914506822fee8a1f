"""Loads espeak-ng, which is under the GPL and can crash or hang: only child programs import this module.

A data path of over 160 characters fails without an error (espeak-ng 1.52), so the process changes to the
folder and the path is ".".
"""

import ctypes
import os
from pathlib import Path
from typing import Any

import espeakng_loader

from myna.engines.interface import EngineUnavailable

# speak_lib.h
_SYNCHRONOUS, _DONT_EXIT, _BUFFER_MS = 2, 0x8000, 200


def load() -> tuple[Any, int]:
    """The initialized library and its sample rate. Changes the working folder to that of its data.

    Once in a process. Raises EngineUnavailable.
    """
    os.chdir(Path(espeakng_loader.get_data_path()).parent)
    library: Any = ctypes.CDLL(espeakng_loader.get_library_path())
    rate_hz: int = library.espeak_Initialize(_SYNCHRONOUS, _BUFFER_MS, b".", _DONT_EXIT)
    if rate_hz <= 0:
        raise EngineUnavailable("espeak-ng does not start; its data may be missing.")
    return library, rate_hz

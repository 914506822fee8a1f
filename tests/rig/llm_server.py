"""The child process of `llm.py`: `python -m tests.rig.llm_server MODEL KEY SENTENCE`.

Makes the model that says SENTENCE, serves it with llama.cpp's server on a free port of the loopback,
prints `listening at URL` and ends when its standard input does.
"""

import sys
from pathlib import Path

import xllamacpp  # type: ignore[import-untyped]

from tests.rig.tiny_model import write_model


def _main(model: str, key: str, sentence: str) -> None:
    write_model(Path(model), sentence)
    parameters = xllamacpp.CommonParams()
    parameters.model.path = model
    parameters.port = 0
    parameters.api_keys = [key]
    parameters.ui = False
    parameters.fit_params = False
    parameters.cache_ram_mib = 0
    parameters.n_ctx = 2048
    server = xllamacpp.Server(parameters)
    sys.stdout.write(f"listening at {server.listening_address}\n")
    sys.stdout.flush()
    sys.stdin.read()


if __name__ == "__main__":
    _main(*sys.argv[1:])

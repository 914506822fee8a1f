"""The results of a run, as `listen/results/voices.json` has them."""

from pathlib import Path

import msgspec

from bench.results import Machine

RESULTS = Path(__file__).parent / "results" / "voices.json"
UNFINISHED = Path(__file__).parents[1] / ".dev" / "listen" / "voices.json"
"""The results so far of a run, which another run can resume."""
PLAIN = "plain library"


class Heard(msgspec.Struct, array_like=True):
    """One sentence in one voice, its transcript, and its times as in `Spoken`."""

    family: str
    voice_id: str
    group: str
    text: str
    heard: str
    errors: int
    units: int
    seconds: float
    took_s: float
    first_s: float
    cpu_s: float
    lufs: float


class Listening(msgspec.Struct):
    """A whole run.

    `pairs`: the Mandarin and the English voice of each family that spoke all sentences. `voices`: the
    language of each voice, if all of them spoke. `short`: the texts that every voice of a language spoke.
    `load_average`: that of the minute before the run, which other programs made.
    """

    machine: Machine
    versions: dict[str, str]
    pairs: dict[str, tuple[str, str]]
    voices: dict[str, str]
    short: dict[str, list[str]]
    peak_bytes: dict[str, int]
    missing: dict[str, str]
    load_average: float
    heard: list[Heard]


def save(found: Listening, path: Path = RESULTS) -> None:
    """Writes each sentence on its own line, so that two runs can be compared line by line."""
    path.parent.mkdir(parents=True, exist_ok=True)
    head = msgspec.json.format(msgspec.json.encode(msgspec.structs.replace(found, heard=[])), indent=1)
    heard = b",\n".join(msgspec.json.encode(one) for one in found.heard)
    path.write_bytes(head.replace(b'"heard": []', b'"heard": [\n' + heard + b"\n ]") + b"\n")


def load(path: Path = RESULTS) -> Listening:
    """Reads the file that `save` writes."""
    return msgspec.json.decode(path.read_bytes(), type=Listening)

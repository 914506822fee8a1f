"""espeak-ng alone, with the code of Myna's child process.

`python -m bench.espeak_alone FOLDER MEMORY SECONDS TEXT` prints three JSON lines, each with sentences a
second: sound alone; sound to mp3 in MEMORY, a folder in memory, where making a file durable costs nothing;
sound to durable mp3 in FOLDER, which keeps them: ext4 without a journal looks long for an inode where many
were freed just now. It is a separate program since the library is under the GPL and changes the working
folder.
"""

import itertools
import json
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from myna.engines.espeak.child import RATE_PLAIN, Library, speak
from myna.engines.espeak.library import runs_of
from myna.engines.interface import SOUND_MAX_S
from myna.engines.jobs import EspeakJob, OutputFile
from myna.lib.files import make_durable

VOICE = "cmn+f3"


def main(folder: Path, memory: Path, seconds: float, text: str) -> None:
    """The three figures, in the order in which parts are added."""
    library = Library()
    audio_s = _spoken(library, text, memory / "first.mp3")
    numbers = itertools.count()
    durable = Path(tempfile.mkdtemp(dir=folder))

    def sound() -> None:
        library.speak(runs_of(text, VOICE, VOICE), RATE_PLAIN, lambda pcm: None)

    def on_disk() -> None:
        path = durable / f"{next(numbers)}.mp3"
        _spoken(library, text, path)
        make_durable(path)

    works: dict[str, Callable[[], object]] = {
        "espeak-ng": sound,
        "espeak-ng + mp3": lambda: _spoken(library, text, memory / "sound.mp3"),
        "espeak-ng + mp3 on disk": on_disk,
    }
    for name, work in works.items():
        print(json.dumps({"name": name, "sentences_s": _rate(work, seconds), "audio_s": audio_s}))


def _spoken(library: Library, text: str, path: Path) -> float:
    """Seconds of sound."""
    job = EspeakJob(
        text=text,
        voice=VOICE,
        han_voice=VOICE,
        speed=1.0,
        sound_max_s=SOUND_MAX_S,
        file=OutputFile.at(path.with_suffix(".part"), path),
    )
    return speak(library, job, lambda _part: None, lambda _counts: None).seconds


def _rate(work: Callable[[], object], seconds: float) -> float:
    work()
    done, begun = 0, time.perf_counter()
    while time.perf_counter() - begun < seconds:
        work()
        done += 1
    return done / (time.perf_counter() - begun)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), float(sys.argv[3]), sys.argv[4])

"""One run: the service or the plain library speaks a sentence, then Whisper transcribes it, and so on.

First come the two voices of each engine and those of the plain library, then the other voices.
"""

import importlib.metadata
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from bench.results import machine
from demo import kokoro_model
from listen import ear as ears
from listen import plain, score, sound, speakers
from listen.ear import Ear
from listen.plain import CannotCompare, Order
from listen.results import PLAIN, Heard, Listening
from listen.sentences import (
    ENGLISH,
    EVERYDAY,
    GROUPS,
    MIXED,
    NUMBERS,
    POLYPHONES,
    QUESTIONS,
    Sentence,
    of_group,
)
from listen.speakers import ESPEAK, KOKORO, Speaker, Spoken, Voice
from myna.cli.models import ProgressBar
from myna.engines.kokoro import symbols
from myna.errors import CommandError

SHORT = {
    "zh": {EVERYDAY: 1, POLYPHONES: 1, NUMBERS: 1, QUESTIONS: 1, ENGLISH: 1, MIXED: 1},
    "en": {ENGLISH: 3},
}
"""How many sentences of each group every voice speaks, by its language."""
AT_ONCE = 15
"""Sentences that one process of the plain library speaks. If the run is interrupted, they are lost."""
_PACKAGES = ("espeakng-loader", "onnxruntime", "faster-whisper", "ctranslate2", "pypinyin", "pyloudnorm")


class Job(NamedTuple):
    """A sentence, in a voice of a family."""

    family: str
    voice: Voice
    sentence: Sentence


def measure(
    folder: Path, speech: str, each: int, *, every_voice: bool = True, before: Listening | None = None
) -> Iterator[Listening]:
    """Speaks and transcribes the first `each` sentences of every group in the first two voices of each
    family, and the short list in every voice.

    Yields the results so far after every sentence, one object that grows. `before` are those of an
    interrupted run, whose sentences are not spoken again. Raises CommandError where `before` are the results
    of another commit.
    """
    found = before or begun(folder)
    if found.machine.commit != (commit := machine(folder).commit):
        raise CommandError(f"the results are of commit {found.machine.commit}, and this is {commit}")
    ear, kokoro = Ear(ears.fetch()), kokoro_model.ensured(ProgressBar(quiet=False))
    with speakers.running(folder, speech, kokoro) as speaker:
        voices = [voice for voice in speaker.voices() if voice.heard_in]
        pairs = pairs_of(voices)
        jobs = list(planned(pairs, [], each))
        compared = [job._replace(family=PLAIN) for job in jobs if job.family == KOKORO]
        others = list(planned({}, voices if every_voice else [], each))
        found.pairs = {family: (first.voice_id, second.voice_id) for family, (first, second) in pairs.items()}
        found.missing = {} if compared else {KOKORO: "the service has no voice of it"}
        yield from heard(ear, found, jobs, by_service(speaker, folder, found))
        if compared:
            found.pairs = _with_plain(found.pairs)
            try:
                yield from heard(ear, found, compared, by_plain_library(kokoro, folder, found))
            except CannotCompare as reason:
                found.missing[PLAIN] = str(reason)
                del found.pairs[PLAIN]
        found.voices = {voice.voice_id: voice.language for voice in voices if every_voice}
        yield from heard(ear, found, others, by_service(speaker, folder, found))
    yield found


def begun(folder: Path) -> Listening:
    """Results without a sentence, of this machine and commit."""
    return Listening(
        machine=machine(folder),
        versions={name: importlib.metadata.version(name) for name in _PACKAGES},
        pairs={},
        voices={},
        short={language: [sentence.text for sentence in short(language)] for language in SHORT},
        peak_bytes={},
        missing={},
        load_average=round(os.getloadavg()[0], 1),
        heard=[],
    )


def _with_plain(pairs: dict[str, tuple[str, str]]) -> dict[str, tuple[str, str]]:
    """The plain library speaks in the voices of Kokoro. Its column is beside Kokoro's."""
    return {KOKORO: pairs[KOKORO], PLAIN: pairs[KOKORO], **pairs}


def pairs_of(voices: Sequence[Voice]) -> dict[str, tuple[Voice, Voice]]:
    """The first Mandarin and the first English voice of each family that has both."""
    found = {}
    for family in (KOKORO, ESPEAK):
        first = {voice.heard_in: voice for voice in reversed(voices) if voice.family == family}
        if first.keys() >= {"zh", "en"}:
            found[family] = (first["zh"], first["en"])
    return found


def planned(pairs: dict[str, tuple[Voice, Voice]], voices: Sequence[Voice], each: int) -> Iterator[Job]:
    """Every sentence of the run once."""
    jobs = {
        Job(family, voice, sentence): None
        for family, (mandarin, english) in pairs.items()
        for group in GROUPS
        for sentence in of_group(group, each)
        for voice in ([english, mandarin] if group == ENGLISH else [mandarin])
    }
    for voice in voices:
        jobs |= {Job(voice.family, voice, sentence): None for sentence in short(voice.heard_in)}
    yield from jobs


def short(language: str) -> list[Sentence]:
    """The sentences that every voice of a language speaks."""
    return [sentence for group, count in SHORT[language].items() for sentence in of_group(group, count)]


Speak = Callable[[Sequence[Job]], Iterator[Spoken]]
"""Speaks jobs, one after the other."""


def by_service(speaker: Speaker, folder: Path, found: Listening) -> Speak:
    """Speaks by the service. A first sentence of each family, which loads the voices, isn't counted."""

    def speak(jobs: Sequence[Job]) -> Iterator[Spoken]:
        for job in {job.family: job for job in jobs}.values():
            speaker.speak(job.sentence.text, job.voice, folder / "first.mp3")
        for job in jobs:
            spoken = speaker.speak(job.sentence.text, job.voice, folder / "spoken.mp3")
            found.peak_bytes |= _highest(found.peak_bytes, speaker.peak_bytes())
            yield spoken

    return speak


def by_plain_library(model: Path, folder: Path, found: Listening) -> Speak:
    """Speaks by the plain library, some jobs in one process. Raises CannotCompare."""

    def speak(jobs: Sequence[Job]) -> Iterator[Spoken]:
        for first in range(0, len(jobs), AT_ONCE):
            orders = [
                Order(job.sentence.text, job.voice, folder / f"plain-{number}.wav")
                for number, job in enumerate(jobs[first : first + AT_ONCE])
            ]
            sounds, peak_bytes = plain.speak(model, symbols.NUMBERS, orders)
            found.peak_bytes |= _highest(found.peak_bytes, {PLAIN: peak_bytes})
            yield from sounds

    return speak


def heard(ear: Ear, found: Listening, jobs: Sequence[Job], speak: Speak) -> Iterator[Listening]:
    """Adds the transcript of each job that has none yet, and its errors, to `found`, which it yields."""
    jobs = remaining(jobs, found)
    for number, (job, spoken) in enumerate(zip(jobs, speak(jobs), strict=True)):
        text = ear.hear(spoken.path, job.sentence.language)
        errors, units = score.score(job.sentence.reference, text)
        lufs = sound.loudness_lufs(*sound.read(spoken.path))
        found.heard.append(Heard(
            job.family, job.voice.voice_id, job.sentence.group, job.sentence.text, text, errors, units,
            round(spoken.seconds, 3), round(spoken.took_s, 4), round(spoken.first_s, 4),
            round(spoken.cpu_s, 3), round(lufs, 2),
        ))  # fmt: skip
        progress(job.family, number, jobs)
        yield found


def remaining(jobs: Sequence[Job], found: Listening) -> list[Job]:
    """The jobs whose sentence was not heard in their voice."""
    known = {(one.family, one.voice_id, one.text) for one in found.heard}
    return [job for job in jobs if (job.family, job.voice.voice_id, job.sentence.text) not in known]


def _highest(first: dict[str, int], second: dict[str, int]) -> dict[str, int]:
    return {kind: max(first.get(kind, 0), peak) for kind, peak in second.items()}


def progress(what: str, number: int, jobs: Sequence[Job]) -> None:
    if sys.stderr.isatty() or (number + 1) % 10 == 0 or number + 1 == len(jobs):
        end = "\r" if sys.stderr.isatty() and number + 1 < len(jobs) else "\n"
        print(f"{what}: {number + 1} of {len(jobs)}", end=end, file=sys.stderr, flush=True)

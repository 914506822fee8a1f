"""One run: the service speaks, then the plain library, then Whisper transcribes both, one after another."""

import importlib.metadata
import os
import sys
from collections.abc import Iterator, Sequence
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
from myna.cli.progress import ProgressBar
from myna.engines.kokoro import symbols

SHORT = {
    "zh": {EVERYDAY: 1, POLYPHONES: 1, NUMBERS: 1, QUESTIONS: 1, ENGLISH: 1, MIXED: 1},
    "en": {ENGLISH: 3},
}
"""How many sentences of each group every voice speaks, by its language."""
_PACKAGES = ("espeakng-loader", "onnxruntime", "faster-whisper", "ctranslate2", "pypinyin", "pyloudnorm")


class Job(NamedTuple):
    """A sentence, in a voice of a family."""

    family: str
    voice: Voice
    sentence: Sentence


def measure(folder: Path, speech: str, each: int, *, every_voice: bool = True) -> Listening:
    """Speaks and transcribes the first `each` sentences of every group in the first two voices of each
    family, and the short list in every voice."""
    measured_on, load_average = machine(folder), os.getloadavg()[0]
    missing: dict[str, str] = {}
    whisper, kokoro = ears.fetch(), kokoro_model.ensured(ProgressBar(quiet=False))
    with speakers.running(folder, speech, kokoro) as speaker:
        voices = [voice for voice in speaker.voices() if voice.heard_in]
        pairs = pairs_of(voices)
        jobs = list(planned(pairs, voices if every_voice else [], each))
        spoken = speak(speaker, jobs, folder)
        peaks = speaker.peak_bytes()
    if KOKORO in pairs:
        wanted = [job for job in jobs if job.family == KOKORO and job.voice in pairs[KOKORO]]
        orders = [
            Order(job.sentence.text, job.voice, folder / f"plain-{number}.wav")
            for number, job in enumerate(wanted)
        ]
        try:
            sounds, peaks[PLAIN] = plain.speak(kokoro, symbols.NUMBERS, orders)
        except CannotCompare as reason:
            missing[PLAIN] = str(reason)
        else:
            spoken += sounds
            jobs += [job._replace(family=PLAIN) for job in wanted]
            pairs[PLAIN] = pairs[KOKORO]
    else:
        missing[KOKORO] = "the service has no voice of it"
    return Listening(
        machine=measured_on,
        versions={name: importlib.metadata.version(name) for name in _PACKAGES},
        pairs={
            family: (pairs[family][0].voice_id, pairs[family][1].voice_id)
            for family in (KOKORO, PLAIN, ESPEAK)
            if family in pairs
        },
        voices={voice.voice_id: voice.language for voice in voices if every_voice},
        short={language: [sentence.text for sentence in short(language)] for language in SHORT},
        peak_bytes=peaks,
        missing=missing,
        load_average=round(load_average, 1),
        heard=hear(Ear(whisper), jobs, spoken),
    )


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


def speak(speaker: Speaker, jobs: Sequence[Job], folder: Path) -> list[Spoken]:
    """The sound of each job, in files in the folder. A first one, which loads the voices, isn't counted."""
    for family in {job.family: job for job in jobs}.values():
        speaker.speak(family.sentence.text, family.voice, folder / "first.mp3")
    found = []
    for number, job in enumerate(jobs):
        found.append(speaker.speak(job.sentence.text, job.voice, folder / f"{number}.mp3"))
        progress("spoken", number, jobs)
    return found


def hear(ear: Ear, jobs: Sequence[Job], sounds: Sequence[Spoken]) -> list[Heard]:
    """The transcript of each sound, and its errors."""
    found = []
    for number, (job, spoken) in enumerate(zip(jobs, sounds, strict=True)):
        text = ear.hear(spoken.path, job.sentence.language)
        errors, units = score.score(job.sentence.reference, text)
        lufs = sound.loudness_lufs(*sound.read(spoken.path))
        found.append(Heard(
            job.family, job.voice.voice_id, job.sentence.group, job.sentence.text, text, errors, units,
            round(spoken.seconds, 3), round(spoken.took_s, 4), round(spoken.first_s, 4),
            round(spoken.cpu_s, 3), round(lufs, 2),
        ))  # fmt: skip
        progress("heard", number, jobs)
    return found


def progress(what: str, number: int, jobs: Sequence[Job]) -> None:
    if sys.stderr.isatty() or (number + 1) % 50 == 0 or number + 1 == len(jobs):
        end = "\r" if sys.stderr.isatty() and number + 1 < len(jobs) else "\n"
        print(f"{what} {number + 1} of {len(jobs)}", end=end, file=sys.stderr, flush=True)

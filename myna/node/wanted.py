"""What the site takes of a voice, in words: who reads an error isn't shown a regular expression."""

from collections.abc import Mapping
from typing import Final

from myna.wire.farm import CLONE_PREFIX

_VOICE_ID: Final = (
    "letters, digits, '.', '_' and '-', at most 100 of them, the first a letter or a digit; and no id begins"
    f" with {CLONE_PREFIX!r}, which is for cloned voices"
)
_WORDS: Final[Mapping[str, str]] = {
    "id": _VOICE_ID,
    "voice_id": _VOICE_ID,
    "voices": _VOICE_ID,
    "language": "a language's code, such as zh-CN, yue or en",
}


def wanted(key: str, what: str) -> str:
    """What the value of this key must be, where `what`, msgspec's complaint, shows a pattern; else empty."""
    return _WORDS.get(key.partition("[")[0], "") if "matching regex" in what else ""

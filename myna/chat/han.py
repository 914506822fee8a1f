"""Han characters, the unit in which the contract's token counts are given."""

import re

import regex

_OTHER_THAN_ASCII = re.compile(r"[^\x00-\x7f]+")
_HAN_RUN = regex.compile(r"\p{Script=Han}+")


def han_count(text: str) -> int:
    """The number of code points in `text` whose Unicode script is Han; 々 and 〇 are, kana and 。 are not."""
    if text.isascii():
        return 0
    candidates = "".join(_OTHER_THAN_ASCII.findall(text))  # the look at a character's script is the dear one
    return sum(map(len, _HAN_RUN.findall(candidates)))

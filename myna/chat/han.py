"""Han characters, the unit in which the contract's token counts are given."""

import regex

_HAN_RUN = regex.compile(r"\p{Script=Han}+")


def han_count(text: str) -> int:
    """The number of code points in `text` whose Unicode script is Han; 々 and 〇 are, kana and 。 are not."""
    if text.isascii():
        return 0
    return sum(len(run) for run in _HAN_RUN.findall(text))

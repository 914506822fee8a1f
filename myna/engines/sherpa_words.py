"""Which words a model knows. It doesn't tell of others: it leaves them out, or makes a noise for them."""

from pathlib import Path
from typing import Final

import regex

_WORD: Final = regex.compile(r"\p{Script=Han}|[^\W_]+(?:['’][^\W_]+)*")


class Words:
    """The words of lexicons: a line begins with its word, up to `||` or the first space."""

    def __init__(self, lexicons: tuple[Path, ...]) -> None:
        self._known: set[str] = set()
        for lexicon in lexicons:
            with lexicon.open(encoding="utf-8", errors="replace") as lines:
                for line in lines:
                    word, parted, _ = line.partition("||")
                    if not parted:
                        word = line.partition("\t")[0].split(" ", 1)[0]
                    self._known.update(_WORD.findall(word.lower()))

    def any_in(self, text: str) -> bool:
        """Whether the model has something to say of it. A model without a lexicon is taken at its word."""
        return not self._known or any(word in self._known for word in _WORD.findall(text.lower()))

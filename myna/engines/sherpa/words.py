"""The words in a model's lexicon. A model drops other words without an error, or makes noise for them."""

from pathlib import Path
from typing import Final

import regex

_WORD: Final = regex.compile(r"\p{Script=Han}|[^\W_]+(?:['’][^\W_]+)*")


class Words:
    """The words of lexicon files. The word of a line ends at `||`, or at the first space or tab."""

    def __init__(self, lexicons: tuple[Path, ...]) -> None:
        self._known: set[str] = set()
        for lexicon in lexicons:
            with lexicon.open(encoding="utf-8", errors="replace") as lines:
                for line in lines:
                    word, separator, _ = line.partition("||")
                    if not separator:
                        word = line.partition("\t")[0].split(" ", 1)[0]
                    self._known.update(_WORD.findall(word.lower()))

    def any_in(self, text: str) -> bool:
        """Whether the lexicon has a word of the text; True without a lexicon."""
        return not self._known or any(word in self._known for word in _WORD.findall(text.lower()))

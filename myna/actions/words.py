"""Changes of the lexicon: how words are read, for the site or for one account."""

from typing import Annotated

from msgspec import structs

from myna.actions import Action, Change, Field
from myna.errors import CommandError
from myna.store.queries import voices as store
from myna.store.queries.voices import SITE, WordRow
from myna.voices.lexicon import WORDS_MAX, checked_reading, checked_word

Word = Annotated[str, Field("The word as it is written in texts.", argument="WORD")]
Account = Annotated[str, Field("The account whose texts it is for; default: those of all.")]


class AddWord(Action[WordRow], frozen=True):
    """Set how a word is read."""

    command = "voice word add"
    word: Word
    reading: Annotated[str, Field("Pinyin (hang2zhang3), words (MY-nuh) or IPA.", argument="READING")]
    account: Account = ""

    def check(self) -> None:
        checked_reading(checked_word(self.word), self.reading)

    async def run(self, change: Change) -> WordRow:
        word = checked_word(self.word)
        reading, owner = checked_reading(word, self.reading), await _owner(change, self.account)
        if await store.put_word(change.db, owner, word, reading) > WORDS_MAX:
            raise CommandError(
                "There are {words_max} words, the maximum; remove one first.", words_max=WORDS_MAX
            )
        change.performed = [structs.replace(self, word=word, reading=reading)]
        return next(row for row in await store.words(change.db, owner) if row.word == word)


class RemoveWord(Action[None], frozen=True):
    """Remove a word."""

    command = "voice word remove"
    word: Word
    account: Account = ""

    async def run(self, change: Change) -> None:
        if not await store.delete_word(change.db, await _owner(change, self.account), self.word):
            raise CommandError("There is no word {word!r}.", word=self.word)


async def _owner(change: Change, account: str) -> int:
    """The account of the words, or that of those of the site, which operators change."""
    if account:
        return (await change.account(account)).id
    if change.owner_id is not None:
        raise CommandError("Only an operator changes the words of the site.")
    return SITE

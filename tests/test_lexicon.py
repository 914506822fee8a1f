"""The lexicon: which words a text has, whose reading wins, what may be entered, and what it costs to read."""

import pytest

from myna.accounts import accounts
from myna.actions.voices import AddWord, RemoveWord
from myna.config import ConfigCache
from myna.errors import CommandError
from myna.store.database import Transaction
from myna.store.queries import voices as store
from myna.store.queries.accounts import AccountRow
from myna.voices import lexicon
from myna.voices.lexicon import Lexicons
from tests.rig.actors import perform
from tests.store.books import Books

WORDS = {
    "行": "hang2",
    "行长": "hang2 zhang3",
    "Myna": "MY-nuh",
    "US": "ju es",
    "C++": "sea",
    "new Myna": "x",
}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("行长行", "[行长](/hang2 zhang3/)[行](/hang2/)"),
        ("用Myna读, myna MYNA", "用[Myna](/MY-nuh/)读, [myna](/MY-nuh/) [MYNA](/MY-nuh/)"),
        ("Mynas, aMyna, Myna2, new Myna", "Mynas, aMyna, Myna2, [new Myna](/x/)"),
        ("US us C++.", "[US](/ju es/) us [C++](/sea/)."),
        (
            "[行长](/xing2 zhang3/)[行](:characters)[行]",
            "[行长](/xing2 zhang3/)[行](:characters)[[行](/hang2/)]",
        ),
        ("nothing", "nothing"),
    ],
)
def test_the_longest_whole_words_are_read(text: str, expected: str) -> None:
    assert lexicon.applied(text, WORDS) == expected


def test_readings_lengthen_a_text_up_to_a_limit() -> None:
    text = "行" * 100_000
    assert len(text) < len(lexicon.applied(text, {"行": "a" * 64})) <= len(text) + lexicon.ADDED_MAX_CHARS


async def owner(books: Books) -> AccountRow:
    return await accounts.find(books.db, (await books.customer()).name)


async def test_the_words_of_an_account_come_before_those_of_the_site(books: Books) -> None:
    ann, bob = await owner(books), await owner(books)
    config = await ConfigCache.read(books.db)
    lexicons = Lexicons(books.db, config)
    assert await lexicons.of_account(ann.id) == {}
    for account, word, reading in (
        (None, "Myna", "MY-nuh"),
        (None, "行长", "Xing2'zhang3"),
        (ann, " Myna ", "卖纳"),
    ):
        await perform(books.db, AddWord(word=word, reading=reading, account=account.name if account else ""))
    await perform(books.db, AddWord(word="行长", reading="háng zhǎng"))
    await config.refresh()
    site = {"Myna": "MY-nuh", "行长": "hang2 zhang3"}
    assert await lexicons.of_account(ann.id) == site | {"Myna": "卖纳"}
    assert await lexicons.of_account(bob.id) == site
    assert await lexicon.stored(books.db, ann.id) == site | {"Myna": "卖纳"}

    await perform(books.db, RemoveWord(word="Myna", account=ann.name))
    await config.refresh()
    assert await lexicons.of_account(ann.id) == site
    with pytest.raises(CommandError, match="There is no word"):
        await perform(books.db, RemoveWord(word="Myna", account=ann.name))


async def test_a_process_reads_the_words_of_a_version_once(books: Books) -> None:
    ann = await owner(books)
    await perform(books.db, AddWord(word="Myna", reading="MY-nuh", account=ann.name))
    lexicons = Lexicons(books.db, await ConfigCache.read(books.db))
    known = await lexicons.of_account(ann.id)
    await books.sql("DELETE FROM words")
    assert await lexicons.of_account(ann.id) == known


async def test_an_account_has_so_many_words(books: Books) -> None:
    ann = await owner(books)

    async def fill(db: Transaction) -> None:
        for number in range(lexicon.WORDS_MAX):
            await store.put_word(db, ann.id, f"w{number}", "w")

    await books.db.transaction(fill)
    await perform(books.db, AddWord(word="w0", reading="other", account=ann.name))
    with pytest.raises(CommandError, match="500 words, the maximum"):
        await perform(books.db, AddWord(word="more", reading="w", account=ann.name))


@pytest.mark.parametrize(
    ("word", "reading", "said"),
    [
        ("行长", "hang2", "has 2 characters"),
        ("行长", "hang2 zhang9", "A reading is pinyin"),
        ("行长", "hagn2 zhang3", "A reading is pinyin"),
        ("行长", "hang zhang", "A reading is pinyin"),
        ("Myna", "", "A reading is pinyin"),
        ("Myna", "a/b", "A reading is pinyin"),
        ("Myna", "x" * 65, "A reading is pinyin"),
        ("Myna", "m\ue000", "A reading is pinyin"),
        ("M\ue000", "m", "A word has"),
        ("[M]", "m", "A word has"),
        ("。", "m", "A word has"),
        ("x" * 65, "m", "A word has"),
    ],
)
async def test_an_unreadable_word_is_refused(sqlite_books: Books, word: str, reading: str, said: str) -> None:
    with pytest.raises(CommandError, match=said):
        await perform(sqlite_books.db, AddWord(word=word, reading=reading))

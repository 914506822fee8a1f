"""The preferences of an account."""

import pytest

from myna import activity
from myna.errors import CommandError
from myna.sign_in import preferences, sessions
from myna.sign_in.preferences import Changes
from myna.store.queries.preferences import Preferences
from tests.sign_in.people import ADDRESS, BROWSER, OPERATOR, PASSWORD, person
from tests.store.books import Books

pytestmark = pytest.mark.anyio


async def test_preferences_change_one_by_one_and_a_session_has_the_language(books: Books) -> None:
    ann = await person(books)
    assert await preferences.of_account(books.db, ann.id) == Preferences(language="", low_balance=0)
    await preferences.change(books.db, ann, Changes(language="zh"), OPERATOR)
    await preferences.change(books.db, ann, Changes(low_balance=50), OPERATOR)
    assert await preferences.of_account(books.db, ann.id) == Preferences(language="zh", low_balance=50)
    session = await sessions.find(
        books.db, await sessions.sign_in(books.db, "ann", PASSWORD, ADDRESS, BROWSER)
    )
    assert session is not None and session.language == "zh"
    said = [row.command for row in await activity.page(books.db, limit=2)]
    assert said == ["myna account set ann --low-balance 50", "myna account set ann --language zh"]


@pytest.mark.parametrize(
    "changes", [Changes(language="fr"), Changes(low_balance=-1), Changes(low_balance=2**53)]
)
async def test_a_value_that_is_not_possible_is_refused(books: Books, changes: Changes) -> None:
    ann = await person(books)
    with pytest.raises(CommandError):
        await preferences.change(books.db, ann, changes, OPERATOR)
    assert await preferences.of_account(books.db, ann.id) == Preferences()

"""How words are read: for one's own texts, and for those of the site."""

from functools import partial

from msgspec import Struct
from starlette.responses import Response

from myna import activity, lexicon
from myna.errors import CommandError
from myna.office.page import Page, Who
from myna.office.visit import Visit
from myna.store.queries import words as store
from myna.store.queries.accounts import AccountRow
from myna.store.queries.words import SITE

_OWN, _OF_SITE = "/words", "/site/words"


class Word(Struct):
    """The forms: a word to add, or to remove."""

    word: str = ""
    reading: str = ""


async def show(visit: Visit, error: str = "", form: Word | None = None) -> Response:
    """The words, and the form of another one."""
    path, owner = _place(visit)
    rows = await visit.read(partial(store.of_owner, account_id=owner.id if owner else SITE))
    name = owner.name if owner else None
    words = activity.words("voice", "word", "add", "行长", "hang2zhang3", account=name)
    return visit.page(
        "words.html",
        status=400 if error else 200,
        place=path,
        rows=rows,
        form=form or Word(),
        error=error,
        command_words=words,
    )


async def add(visit: Visit) -> Response:
    """Sets how a word is read."""
    path, owner = _place(visit)
    form = visit.fields(Word)
    try:
        row = await lexicon.put(visit.db, owner, form.word, form.reading, by=visit.actor)
    except CommandError as error:
        return await show(visit, visit.said(error), form)
    notice = visit.text("{word} is read as {reading}.")
    return visit.redirect(path, notice.format(word=row.word, reading=row.reading))


async def remove(visit: Visit) -> Response:
    """Removes a word."""
    path, owner = _place(visit)
    try:
        await lexicon.remove(visit.db, owner, visit.fields(Word).word, by=visit.actor)
    except CommandError as error:
        return await show(visit, visit.said(error))
    return visit.redirect(path, visit.text("The word is removed."))


def _place(visit: Visit) -> tuple[str, AccountRow | None]:
    """The page, and the account whose words it has: None for those of the site."""
    of_site = visit.request.url.path.startswith(f"/office{_OF_SITE}")
    return (_OF_SITE, None) if of_site else (_OWN, visit.account)


PAGES = [
    Page(path=path + rest, show=get, submit=submit, who=who)
    for path, who in ((_OWN, Who.ACCOUNT), (_OF_SITE, Who.OPERATOR))
    for rest, get, submit in (("", show, add), ("/remove", None, remove))
]

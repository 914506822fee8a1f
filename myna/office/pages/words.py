"""How words are read: for one's own texts, and for those of the site."""

from functools import partial

from starlette.responses import Response

from myna.actions.voices import AddWord, RemoveWord
from myna.office.page import Page, Who
from myna.office.visit import Visit
from myna.store.queries import words as store
from myna.store.queries.accounts import AccountRow
from myna.store.queries.words import SITE

_OWN, _OF_SITE = "/words", "/site/words"


async def show(visit: Visit) -> Response:
    """The words, and the form of another one."""
    path, owner = _place(visit)
    rows = await visit.read(partial(store.of_owner, account_id=owner.id if owner else SITE))
    example = AddWord(word="行长", reading="hang2zhang3", account=owner.name if owner else "")
    return visit.page("words.html", place=path, rows=rows, command_words=example.words)


async def add(visit: Visit) -> Response:
    """Sets how a word is read."""
    path, owner = _place(visit)
    action = visit.fields(AddWord, account=owner.name if owner else "")
    row = await visit.perform(action, own=owner is not None)
    notice = visit.text("{word} is read as {reading}.")
    return visit.redirect(path, notice.format(word=row.word, reading=row.reading))


async def remove(visit: Visit) -> Response:
    """Removes a word."""
    path, owner = _place(visit)
    action = visit.fields(RemoveWord, account=owner.name if owner else "")
    await visit.perform(action, own=owner is not None)
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

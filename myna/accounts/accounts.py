"""Accounts, which own units and keys."""

import re
from difflib import get_close_matches

from myna.errors import CommandError
from myna.lib.names import is_line, is_name
from myna.store.database import Queries
from myna.store.queries import accounts as store
from myna.store.queries.accounts import AccountRow
from myna.store.rows import ID_MAX

NAME_MAX_CHARS = 100
EMAIL_MAX_CHARS = 254
MEMO_MAX_CHARS = 1000
UNITS_MAX = 2**53 - 1
"""The largest balance: JSON parsers of every language represent it exactly."""
_COMPARED_MAX = 500
_EMAIL = re.compile(r"[^@\s]+@[^@\s.]+(\.[^@\s.]+)*")


async def find(db: Queries, name: str) -> AccountRow:
    """The account of this name, or else the only one with this e-mail address. Raises CommandError."""
    if account := await store.by_name(db, name):
        return account
    same = await store.by_email(db, name) if "@" in name and name.isprintable() else []
    if len(same) == 1:
        return same[0]
    if same:
        names = ", ".join(repr(row.name) for row in same)
        raise CommandError(
            "Several accounts have the e-mail address {email!r}: name one of {names}.",
            email=name,
            names=names,
        )
    near = get_close_matches(name, [row.name for row in await store.page(db, 0, _COMPARED_MAX)])
    if near:
        names = ", ".join(map(repr, near))
        raise CommandError("There is no account {name!r}; did you mean {names}?", name=name, names=names)
    raise CommandError("There is no account {name!r}.", name=name)


async def list_all(db: Queries) -> list[AccountRow]:
    """All accounts, oldest first."""
    return await store.page(db, 0, ID_MAX)


def check_details(name: str, email: str) -> None:
    """Raises CommandError if an account can't have this name or e-mail address."""
    check_name(name)
    _check_line("An email address", email, EMAIL_MAX_CHARS, "email")
    if email and not _EMAIL.fullmatch(email):
        raise CommandError("{email!r} is not an e-mail address, such as name@example.org.", email=email)


def check_memo(memo: str) -> None:
    """Raises CommandError for a memo that the ledger doesn't store."""
    _check_line("A memo", memo, MEMO_MAX_CHARS, "memo")


def check_name(name: str) -> None:
    """Raises CommandError if an account can't have this name."""
    if not is_name(name, NAME_MAX_CHARS) or name != name.strip():
        raise CommandError(
            "An account needs a name of 1 to {name_max_chars} printable characters, with no space around it.",
            "name",
            name_max_chars=NAME_MAX_CHARS,
        )


def _check_line(what: str, text: str, chars_max: int, field: str) -> None:
    if not is_line(text, chars_max):
        raise CommandError(
            "{what} has at most {chars_max} characters, all of them printable.",
            field,
            what=what,
            chars_max=chars_max,
        )

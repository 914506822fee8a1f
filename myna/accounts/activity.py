"""The activity: who changed what, as the command line that makes the same change.

Each change of the site's data by an operator or an account holder is recorded in its own transaction, so a
change that is rolled back leaves no row. Rows are never changed or deleted. A secret is never recorded.
"""

import getpass
import os
import shlex
from collections.abc import Sequence

from msgspec import Struct

from myna.store.database import Transaction
from myna.store.queries import accounts as store
from myna.store.queries.accounts import PROGRAM, NewActivity


class Actor(Struct, frozen=True):
    """Who makes a change: the account (0 for the command line), its name, and the client's address."""

    account_id: int
    name: str
    address: str


def command_line() -> Actor:
    """The user of the operating system who runs this process."""
    try:
        name = getpass.getuser()
    except (KeyError, OSError):  # the user id has no name
        name = f"user {os.getuid()}"
    return Actor(account_id=0, name=name, address="")


def words(*values: str | int, **options: str | int | bool | Sequence[str] | None) -> list[str]:
    """The words of a command after `myna`: `words("account", "grant", "ann", 5, memo="a gift")`.

    Options that are None or False are left out. True is a flag; a list repeats its option. Values that begin
    with a hyphen are written so that the command line parses them as values.
    """
    plain: list[str] = []
    rest = list(map(str, values))
    while rest and not _is_like_an_option(rest[0]):
        plain.append(rest.pop(0))
    for name, value in options.items():
        plain += _option(f"--{name.replace('_', '-')}", value)
    return [*plain, "--", *rest] if rest else plain


async def record(
    connection: Transaction, actor: Actor, command: Sequence[str], account_id: int = 0, *, note: str = ""
) -> None:
    """Records a change in its transaction. `command` is what follows `myna`, without secrets; `account_id` is
    the account that the change concerns, 0 for none. `note` is a comment behind the command, for a change
    that the command alone would not make."""
    text = shlex.join([PROGRAM, *command])
    new = NewActivity(
        actor_id=actor.account_id,
        actor=actor.name,
        address=actor.address,
        command=f"{text} # {note}" if note else text,
        account_id=account_id,
    )
    await store.add_activity(connection, new)


def _option(name: str, value: str | int | bool | Sequence[str] | None) -> list[str]:
    if value is None or value is False:
        return []
    if value is True:
        return [name]
    if isinstance(value, str | int):
        text = str(value)
        return [f"{name}={text}"] if text.startswith("-") else [name, text]
    return [word for one in value for word in _option(name, one)]


def _is_like_an_option(word: str) -> bool:
    return word.startswith("-") and not word.removeprefix("-").isdecimal()

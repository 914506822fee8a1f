"""How a page is declared."""

from collections.abc import Awaitable, Callable
from enum import IntEnum

from msgspec import Struct
from starlette.responses import Response

from myna.office.forms import FORM_MAX_BYTES
from myna.office.visit import Visit

Handler = Callable[[Visit], Awaitable[Response]]


class Who(IntEnum):
    """Who may open a page."""

    ANYONE = 0
    ACCOUNT = 1
    OPERATOR = 2


class Page(Struct, frozen=True, kw_only=True):
    """A page below /office. `path` has Starlette's syntax.

    `recent`: its form is accepted only if the password was entered in the last ten minutes; otherwise the
    browser asks for it and sends the form again (ASVS 7.5). `secrets` are fields that no page repeats: they
    are entered again with the password.

    A form makes its change once, however often it is sent: see `submission.py`. `repeatable` says of a form
    for which that is not so why it may be sent again.
    """

    path: str
    show: Handler | None = None
    submit: Handler | None = None
    who: Who = Who.ACCOUNT
    recent: bool = False
    secrets: tuple[str, ...] = ()
    repeatable: str = ""
    form_max_bytes: int = FORM_MAX_BYTES

    @property
    def methods(self) -> list[str]:
        return [name for name, handler in (("GET", self.show), ("POST", self.submit)) if handler]

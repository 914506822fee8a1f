"""How a page is declared."""

from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import quote

from msgspec import Struct, structs
from starlette.convertors import Convertor, register_url_convertor
from starlette.responses import Response

from myna.actions import Action
from myna.office.forms import FORM_MAX_BYTES
from myna.office.visit import Visit

DIGITS_MAX = 19
Handler = Callable[[Visit], Awaitable[Response]]


class Number(Convertor[int]):
    """A number of a path, with no more digits than an id of the database. One with more names no page."""

    regex = f"[0-9]{{1,{DIGITS_MAX}}}"

    def convert(self, value: str) -> int:
        return int(value)

    def to_string(self, value: int) -> str:
        return str(value)


register_url_convertor("number", Number())


class Page(Struct, frozen=True):
    """A page below /office. `path` has Starlette's syntax, and `{id:number}`. Without `anyone` it needs a
    session.

    `recent`: its form is accepted only if the password was entered in the last ten minutes; otherwise the
    browser asks for it and sends the form again (ASVS 7.5). `secrets` are fields that no page repeats: they
    are entered again with the password.

    A form makes its change once, however often it is sent: see `forms.py`. `repeatable` says of a form
    for which that is not so why it may be sent again.
    """

    path: str
    show: Handler | None = None
    submit: Handler | None = None
    anyone: bool = False
    recent: bool = False
    secrets: tuple[str, ...] = ()
    repeatable: str = ""
    form_max_bytes: int = FORM_MAX_BYTES

    @property
    def is_for_operators(self) -> bool:
        """Decided by the address, so that no page of the site can be without the check."""
        return self.path.startswith(("/site/", "/start"))

    @property
    def methods(self) -> list[str]:
        return [name for name, handler in (("GET", self.show), ("POST", self.submit)) if handler]


def performs(kind: type[Action[Any]], to: str, notice: str = "", *, confirmed: bool = False) -> Handler:
    """The function of a form that makes this change, and then shows the page `to` with the notice. Both may
    have fields of the action. `confirmed`: the name must be typed again."""

    async def submit(visit: Visit) -> Response:
        action = visit.fields(kind)
        if confirmed:
            visit.confirm(str(getattr(action, "name", "")))
        await visit.perform(action)
        values = structs.asdict(action)
        quoted = {name: quote(str(value), safe="") for name, value in values.items()}
        return visit.redirect(to.format(**quoted), notice, **values)

    return submit

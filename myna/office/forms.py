"""Reads forms: bounded bodies, and fields as structs."""

import asyncio
import re
from collections.abc import Iterable, Mapping
from typing import TypeVar, get_args, get_origin, get_type_hints

import msgspec
from msgspec import Struct
from python_multipart.multipart import parse_options_header
from starlette.datastructures import FormData, UploadFile
from starlette.exceptions import HTTPException
from starlette.requests import Request

from myna.errors import BodyTooLarge, BodyTooSlow, InvalidRequest
from myna.http.asgi_types import Message
from myna.office.messages import N_
from myna.wire.validation_errors import FieldError, parsed_error

F = TypeVar("F", bound=Struct)

FORM_MAX_BYTES = 64 * 1024
FIELDS_MAX = 100
_NAMES = {
    "concurrent": N_("Concurrent requests"),
    "count": N_("How many codes"),
    "low_balance": N_("Low balance"),
    "model": N_("Model"),
    "units": N_("Units"),
    "uses": N_("Uses"),
}
_LISTS = {list, tuple}
_NO_TEXT = re.compile(r"[\0\ud800-\udfff]")
_NO_CHOICE = "Invalid enum value"
_LEAST, _MOST_CHARS = ">= ", "of length <= "
"""What `FieldError.limit` begins with."""


async def read(request: Request, max_bytes: int, timeout_s: float) -> FormData:
    """The form of the request. Raises BodyTooLarge before more than `max_bytes` are read, BodyTooSlow if it
    does not arrive in time, InvalidRequest for a body that is not a form, or whose fields are no text."""
    # Starlette decodes by any codec that is named: some fail otherwise than others, and idna takes 0.5 s.
    options = parse_options_header(request.headers.get("content-type"))[1]
    if options.get(b"charset", b"utf-8").lower() != b"utf-8":
        raise InvalidRequest("The form must be sent in UTF-8.")
    read_bytes = 0
    receive = request.receive

    async def limited() -> Message:
        nonlocal read_bytes
        message = await receive()
        read_bytes += len(message.get("body", b""))
        if read_bytes > max_bytes:
            raise BodyTooLarge(max_bytes)
        return message

    bounded = Request(request.scope, limited)
    try:
        async with asyncio.timeout(timeout_s):
            form = await bounded.form(max_files=1, max_fields=FIELDS_MAX, max_part_size=max_bytes)
    except TimeoutError:
        raise BodyTooSlow(timeout_s) from None
    except HTTPException as error:  # which Starlette makes of its own MultiPartException
        raise InvalidRequest("The form can't be read: {why}", why=error.detail) from None
    check_text(value for _, value in form.multi_items() if isinstance(value, str))
    return form


def check_text(values: Iterable[str]) -> None:
    """Raises InvalidRequest for what no database stores as text: NUL, and halves of surrogate pairs."""
    if any(_NO_TEXT.search(value) for value in values):
        raise InvalidRequest("The request has a character that a text can't have, such as NUL.")


def convert(form: FormData, kind: type[F], given: Mapping[str, object] = {}) -> F:
    """The fields of the form as a struct; fields that the struct does not have are ignored. A field with a
    list or tuple type takes all values of its name. An empty field is left out, so that its default applies.
    `given` are fields that the form does not decide. Raises InvalidRequest."""
    fields: dict[str, object] = {}
    hints = get_type_hints(kind)
    for name in kind.__struct_fields__:
        values = [value.strip() for value in form.getlist(name) if isinstance(value, str)]
        if _LISTS & {get_origin(one) for one in (hints[name], *get_args(hints[name]))}:
            fields[name] = values
        elif values and values[-1]:
            fields[name] = values[-1].replace("\r\n", "\n")
    try:
        return msgspec.convert({**fields, **given}, kind, strict=False)
    except msgspec.ValidationError as error:
        wrong = parsed_error(str(error))
        refused = _refused(wrong)
        refused.field = (wrong.path or wrong.missing).partition("[")[0]
        raise refused from None


def upload(form: FormData, name: str) -> UploadFile | None:
    """The file of this field, None without one."""
    found = form.get(name)
    return found if isinstance(found, UploadFile) and found.filename else None


def _refused(wrong: FieldError) -> InvalidRequest:
    name = wrong.path or wrong.missing
    what = _NAMES.get(name, name.replace("_", " ").capitalize())
    if wrong.missing:
        return InvalidRequest("{what}: must be filled in.", what=what)
    if wrong.message.startswith(_NO_CHOICE):
        return InvalidRequest("{what}: choose one of those of the page.", what=what)
    if wrong.expected == "int" and wrong.got:
        return InvalidRequest("{what}: must be a whole number.", what=what)
    if wrong.limit.startswith(_LEAST):
        return InvalidRequest(
            "{what}: must be at least {least}.", what=what, least=wrong.limit[len(_LEAST) :]
        )
    if wrong.limit.startswith(_MOST_CHARS):
        most = wrong.limit[len(_MOST_CHARS) :]
        return InvalidRequest("{what}: may have at most {most} characters.", what=what, most=most)
    return InvalidRequest("{what}: {why}.", what=what, why=wrong.message)

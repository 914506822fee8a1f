"""Forms: read within bounds, with their fields as structs, and done once, however often they are sent.

Each form that changes something carries a random value, `once`. The transaction of the change also records
its SHA-256. A form that is sent again (a double click, a reload, the network) waits for the answer to the
first one and gets the same: a redirect, and the same result. docs/decisions/0023 says why.

A result with a secret, such as a new key, is a page that the redirect leads to and that is shown once. It is
stored for ten minutes, sealed by `once`: the database has only its hash, and the browser that sent the form
has it in a cookie. The stored page is deleted when it is old, by whichever process cleans up.
"""

import asyncio
import hashlib
import re
import secrets
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Final, TypeVar, cast, get_args, get_origin, get_type_hints

import msgspec
from msgspec import Struct
from python_multipart.multipart import parse_options_header
from starlette.datastructures import FormData, UploadFile
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from myna.actions import declared
from myna.errors import BodyTooLarge, BodyTooSlow, InvalidRequest
from myna.http.request_head import Message
from myna.office.render import N_
from myna.office.web_security import RESULT_COOKIE, Cookies
from myna.store.database import Database, Transaction
from myna.store.queries import sessions as store
from myna.wire.validation_errors import FieldError, parsed_error

F = TypeVar("F", bound=Struct)

FORM_MAX_BYTES = 64 * 1024
FIELDS_MAX = 100
LABELS = {"cap_period": N_("The cap renews"), "cap_units": N_("Units at most")}
"""What the pages call a field that no action has, where it is not its name."""
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


def label_of(name: str) -> str:
    """What an error calls a field, in English."""
    labels = [LABELS.get(name, ""), *(about.label for about in declared(name))]
    return next(filter(None, labels), name.replace("_", " ").capitalize())


def _refused(wrong: FieldError) -> InvalidRequest:
    name = wrong.path or wrong.missing
    what = label_of(name)
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


T = TypeVar("T")

FIELD: Final = "once"
PASSWORD_FIELD: Final = "current_password"  # noqa: S105  a name
WAIT_MS: Final = 70_000
"""How long the answer to the first of several submissions may take: longer than the test of a channel."""
LOOK_S, LOOK_MAX_S = 0.03, 1.0
"""Between two looks for that answer, at first and at most."""
NO_RESULT: Final = N_(
    "This form was sent before and has no result to show. Look whether its change was made before you fill it"
    " in again."
)
_KEPT: Final = frozenset({"location", "set-cookie", "clear-site-data"})
"""The headers of a response that the browser gets again."""
_ONCE = re.compile(r"[0-9a-f]{64}")


class Answer(Struct):
    """A stored response. `form` is the SHA-256 of the fields, `at` the page that shows the body once, "" for
    a redirect, `account_id` whom it is for. A refusal is stored without its page."""

    form: bytes
    status: int
    headers: list[tuple[str, str]]
    at: str = ""
    account_id: int = 0
    body: bytes = b""


class Result(HTMLResponse):
    """A page to be shown once, at the address `at` below /office."""

    def __init__(self, at: str, page: Response) -> None:
        super().__init__(page.body, page.status_code)
        self.raw_headers = page.raw_headers
        self.at = at


class AlreadySent(Exception):
    """Another submission of this form has made its change."""


class Submission:
    """A form that was sent. `db` is the database to hand to the change: the first of its transactions that is
    committed makes every other submission's raise AlreadySent. Raises InvalidRequest for a form without a
    valid `once`."""

    def __init__(self, db: Database, cookies: Cookies, path: str, form: FormData) -> None:
        self._once = _once_of(form)
        self._form = _fingerprint(path, form)
        self._hash = hash_of(self._once)
        self._attempt = secrets.token_bytes(16)
        self._plain = db
        self._cookies = cookies
        self.claimed = False
        self.db = cast("Database", _Claiming(db, self))

    async def claim(self, connection: Transaction) -> None:
        """Records in the transaction of a change that this submission makes it. Raises AlreadySent."""
        if not await store.claim_form(connection, self._hash, self._attempt):
            raise AlreadySent

    async def claim_now(self) -> None:
        """Records before a change that is no transaction that this submission makes it. Raises
        AlreadySent."""
        await self._plain.transaction(self.claim)
        self.claimed = True

    async def answer(self) -> Response | None:
        """The answer to an earlier submission of this form, which may have to be waited for; None if none
        changed anything. Raises InvalidRequest if its fields were others, if it was refused, or if its answer
        is not known."""
        pause_s = LOOK_S
        while row := await store.submission(self._plain, self._hash):
            if row.answer is not None:
                return await self._again(_unsealed(self._once, row.answer))
            if row.attempt == self._attempt:
                return None
            if row.age_ms > WAIT_MS:
                raise InvalidRequest(NO_RESULT)
            await asyncio.sleep(pause_s)
            pause_s = min(pause_s * 1.5, LOOK_MAX_S)
        return None

    async def keep(self, response: Response, account_id: int) -> Response:
        """Stores the response of this submission, for the browser that sends the form again. Returns what to
        send: for a Result the redirect to its page."""
        refused, at = response.status_code >= 400, response.at if isinstance(response, Result) else ""
        if not self.claimed and not at:
            return response  # nothing was changed
        if response.status_code < 300 and not at:
            raise AssertionError("a form that changed something returned a page, not a Result")
        answer = Answer(
            form=self._form,
            status=response.status_code,
            headers=[(name, value) for name, value in response.headers.items() if name in _KEPT],
            at=at,
            account_id=account_id,
            body=bytes(response.body) if at else b"",
        )
        sealed = _sealed(self._once, answer)

        async def work(connection: Transaction) -> None:
            await self.claim(connection)
            await store.put_form_answer(connection, self._hash, self._attempt, sealed)

        await self._plain.transaction(work)
        return response if refused else self._sent(answer)

    async def _again(self, answer: Answer) -> Response:
        if answer.form != self._form:
            raise InvalidRequest("This form was sent before with other values. Open its page again.")
        if answer.status >= 400:
            raise InvalidRequest(NO_RESULT)
        if answer.at:
            await self._plain.transaction(
                lambda connection: store.show_form_answer_again(connection, self._hash)
            )
        return self._sent(answer)

    def _sent(self, answer: Answer) -> Response:
        if not answer.at:
            response = Response(status_code=answer.status)
        else:
            response = RedirectResponse("/office" + answer.at, 303)
            self._cookies.set(response, RESULT_COOKIE, self._once)
        for name, value in answer.headers:
            response.headers.append(name, value)
        return response


class _Claiming:
    """A database each of whose transactions begins with the claim of a submission."""

    def __init__(self, db: Database, submission: Submission) -> None:
        self._db = db
        self._submission = submission

    def __getattr__(self, name: str) -> Any:
        return getattr(self._db, name)

    async def transaction(self, work: Callable[[Transaction], Awaitable[T]]) -> T:
        async def claimed(connection: Transaction) -> T:
            await self._submission.claim(connection)
            return await work(connection)

        result = await self._db.transaction(claimed)
        self._submission.claimed = True
        return result


async def shown(db: Database, once: str, address: str, account_id: int) -> Response | None:
    """The page of a result at this address, if the account's browser may still see it. `once` is that of its
    cookie."""
    if not _ONCE.fullmatch(once):
        return None
    row = await store.submission(db, hash_of(once))
    if row is None or row.answer is None:
        return None
    answer = _unsealed(once, row.answer)
    if (answer.at, answer.account_id) != (address, account_id):
        return None
    first = await db.transaction(lambda connection: store.show_form_answer(connection, hash_of(once)))
    return HTMLResponse(answer.body) if first else None


def hash_of(once: str) -> bytes:
    """What is stored of a form's value."""
    return hashlib.sha256(once.encode()).digest()


def _once_of(form: FormData) -> str:
    values = form.getlist(FIELD)
    if len(values) == 1 and isinstance(values[0], str) and _ONCE.fullmatch(values[0]):
        return values[0]
    raise InvalidRequest("The form was changed; open its page again.")


def _fingerprint(path: str, form: FormData) -> bytes:
    """The SHA-256 of what was typed, without the password. Of a file it has the name and the size."""
    fields = [
        (name, f"{value.filename}:{value.size}" if isinstance(value, UploadFile) else value)
        for name, value in form.multi_items()
        if name not in (FIELD, PASSWORD_FIELD)
    ]
    return hashlib.sha256(msgspec.json.encode([path, fields])).digest()


def _sealed(once: str, answer: Answer) -> bytes:
    return _crypt(once, msgspec.msgpack.encode(answer))


def _unsealed(once: str, sealed: bytes) -> Answer:
    return msgspec.msgpack.decode(_crypt(once, sealed), type=Answer)


def _crypt(once: str, data: bytes) -> bytes:
    """Encrypts or decrypts, as a one-time pad: `once` has 256 random bits and seals one answer only."""
    pad = hashlib.shake_256(b"myna form\0" + once.encode()).digest(len(data))
    return (int.from_bytes(data) ^ int.from_bytes(pad)).to_bytes(len(data))

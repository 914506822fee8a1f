"""The page Try: a chat with one's own units; and how chats and speech of this page are charged.

The charge, its refund and the limits are those of the API. The form sends a random `once`, which is the
idempotency key of the call: a form that is sent again gets the stored answer, and costs nothing.

With scripts the answer is streamed, and then the page is rendered with the whole answer. Such a call has no
idempotency key, so it ends when the client disconnects.
"""

import asyncio
import hashlib
import secrets
import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Annotated, Any
from urllib.parse import urlsplit

import msgspec
from msgspec import Meta, Struct, field, structs
from starlette.responses import Response

from myna.accounts import keys
from myna.accounts.keys import Scope, UnverifiedCaller
from myna.channels.routes import NAME_MAX_CHARS, RouteKind, listed
from myna.errors import CommitInDoubt, MynaError
from myna.gateway.relay.plan import CHAT
from myna.gateway.relay.v1 import V1_CHAT
from myna.http.responses import Response as WholeResponse
from myna.lib.telemetry import logs
from myna.office.client_lines import chat_lines
from myna.office.page import Page
from myna.office.render import N_
from myna.office.visit import Streamed, Visit
from myna.store.batch import CallState, IdempotencyKey
from myna.store.queries import accounts
from myna.store.queries import reports as reports_store
from myna.store.queries.reports import CallRow
from myna.wire.v1 import MODELS

ONCE_MAX_CHARS = 64
CHARGED_ONCE = "its `once` is the idempotency key of the call"
IN_DOUBT = N_(
    "Whether this call was charged is not known yet. Its page says so within a minute, and a call that failed"
    " is refunded."
)

Disconnected = Callable[[], Awaitable[None]]
Work = Callable[[UnverifiedCaller, Disconnected], Awaitable[str | bytes]]
"""Answers as the API does: returns JSON, raises MynaError."""


class Run(Struct, frozen=True, kw_only=True):
    """How a run ended. `answer` is the JSON of the API, or `error` its message. `call_id` is in hex, "" if no
    call was charged; it is the first call's if the answer is `stored`. `units` were charged and not refunded,
    `balance` is the account's afterwards. `waited_ms` is how long the visitor waited for the answer, and
    `first_ms` for its first part, 0 if it came whole. `stopped`: the visitor ended it."""

    answer: bytes = b""
    error: str = ""
    status: int = 200
    in_doubt: bool = False
    stored: bool = False
    call_id: str
    units: int
    balance: int
    waited_ms: float
    first_ms: float = 0.0
    stopped: bool = False
    request_id: str

    @property
    def refunded(self) -> bool:
        """Whether a call was charged and its units were returned."""
        return bool(self.error and self.call_id and not self.units and not self.in_doubt)


def new_once() -> str:
    """A random value for a form."""
    return secrets.token_hex(16)


async def charged(visit: Visit, scope: Scope, once: str, body: bytes, work: Work) -> Run:
    """Does the work in the account's name. `body` is the request as the API would get it."""
    key_hash = await keys.try_hash(visit.db, visit.account.id)
    idempotency_key = None
    if once:
        name = hashlib.sha256(b"office\0" + once[:ONCE_MAX_CHARS].encode()).hexdigest()
        fingerprint = hashlib.sha256(visit.request.url.path.encode() + b"\0" + body).digest()
        idempotency_key = IdempotencyKey(name, fingerprint)
    started = time.perf_counter()
    answer, error, status, in_doubt = b"", "", 200, False
    details = visit.details
    try:
        caller = UnverifiedCaller(key_hash, scope, idempotency_key, details=details)
        result = await work(caller, visit.disconnected)
        answer = result.encode() if isinstance(result, str) else result
    except MynaError as failure:
        error, status = visit.said(failure), int(failure.status)
        details.failed(failure)
    except CommitInDoubt:
        error, status, in_doubt = visit.text(IN_DOUBT), 500, True
        details.error_type = "commit_in_doubt"
    waited_ms = (time.perf_counter() - started) * 1000
    account = await accounts.by_id(visit.db, visit.account.id)
    return Run(
        answer=answer,
        error=error,
        status=status,
        in_doubt=in_doubt,
        stored=bool(details.replay_of),
        call_id=details.replay_of or details.call_id.hex(),
        units=details.units,
        balance=account.balance if account else 0,
        waited_ms=waited_ms,
        request_id=logs.request_id.get(),
    )


SAID_MAX = 40
"""Messages of a conversation that the form carries and the model sees."""
FORM_MAX_BYTES = 512 * 1024


class _Said(Struct):
    content: str | None = None


class _Choice(Struct):
    message: _Said


class _Sound(Struct):
    url: str


class _Answered(Struct):
    """What is read of an answer, of /v1 or of a channel."""

    choices: list[_Choice]
    audio: _Sound | None = None


_answered = msgspec.json.Decoder(_Answered)


class Chat(Struct):
    """The form. `said` is the conversation so far, the account holder first and then in turns."""

    model: Annotated[str, Meta(max_length=NAME_MAX_CHARS)] = MODELS[0]
    text: str = ""
    said: list[str] = field(default_factory=list)
    once: str = ""


async def show(visit: Visit) -> Response:
    """An empty conversation."""
    return await page(visit, Chat(), [])


async def submit(visit: Visit) -> Response:
    """Sends the conversation and shows it with the answer."""
    form = visit.fields(Chat)
    said = asked_of(form)
    body = msgspec.json.encode(request_of(form.model, said))

    async def work(caller: UnverifiedCaller, disconnected: Disconnected) -> str | bytes:
        endpoint = V1_CHAT if form.model in MODELS else CHAT
        plan = partial(visit.parts.relay_planner.plan, endpoint, caller, body)
        whole = await visit.parts.relay.answer(caller, plan, visit)
        return whole.body if isinstance(whole, WholeResponse) else b""

    run = await charged(visit, Scope.CHAT, form.once, body, work)
    if run.error:
        return await page(visit, form, said[:-1], run)
    answered = _answered.decode(run.answer)
    answer = answered.choices[0].message.content if answered.choices else None
    audio = urlsplit(answered.audio.url).path if answered.audio else ""
    return await page(visit, msgspec.structs.replace(form, text=""), [*said, answer or ""], run, audio)


def asked_of(form: Chat) -> list[str]:
    """The conversation that the model sees: the last turns, and the new message."""
    said = [text.replace("\r\n", "\n") for text in form.said][-SAID_MAX + 1 :]
    return [*said[len(said) % 2 :], form.text]


def request_of(model: str, said: list[str]) -> dict[str, Any]:
    """The body of a request that continues this conversation."""
    return {"model": model, "messages": messages_of(said)}


def messages_of(said: list[str]) -> list[dict[str, str]]:
    """The messages of a conversation in turns."""
    roles = ("user", "assistant")
    return [{"role": roles[number % 2], "content": text} for number, text in enumerate(said)]


async def page(
    visit: Visit, form: Chat, said: list[str], run: Run | None = None, audio: str = ""
) -> Response:
    """The page with a conversation of whole turns. A message that has no answer is in the form."""
    asked = [*said, form.text] if run and form.text else said[:-1]
    config = await visit.config()
    models = [
        route
        for route in listed(config, visit.parts.config.settings)
        if route.kind is RouteKind.CHAT and not route.name.endswith("*")
    ]
    render = partial(
        visit.page,
        "try_chat.html",
        form=form,
        said=messages_of(said),
        models=models,
        run=run,
        audio=audio,
        units=models[0].units if len({model.units for model in models}) == 1 else None,
        balance=run.balance if run else visit.account.balance,
        lines=chat_lines(
            visit.base_url + ("/v1" if form.model in MODELS else "/openai/v1"),
            request_of(form.model, asked or [visit.text(N_("Hello"))]),
        ),
        once=form.once if run and run.in_doubt else new_once(),
    )
    return render(status=run.status if run else 200)


LOOKS_MAX = 40
LOOKS_EVERY_S = 0.05
"""How often to look for the end of a call whose stream has ended."""
NOT_BEGUN = N_("Stopped before the answer arrived. The ledger says whether the call was charged.")
ERROR_MAX_CHARS = 1000
Milliseconds = Annotated[int, Meta(ge=0, le=10**9)]


class Ended(Chat):
    """The form after the stream: the `answer` that was shown, `error` if it is incomplete, the id of the call
    in hex, "" if the browser does not know it, and how long the visitor waited for the first part and in all.
    `stopped`: the visitor ended it."""

    answer: str = ""
    error: Annotated[str, Meta(max_length=ERROR_MAX_CHARS)] = ""
    call: Annotated[str, Meta(pattern=r"\A[0-9a-f]{32}\Z")] | None = None
    stopped: bool = False
    first_ms: Milliseconds = 0
    waited_ms: Milliseconds = 0


async def stream(visit: Visit) -> Response:
    """Streams the answer. An error before the first byte is returned as a page, as without scripts."""
    form = visit.fields(Chat)
    said = asked_of(form)
    body = msgspec.json.encode({**request_of(form.model, said), "stream": True})

    async def work(caller: UnverifiedCaller, disconnected: Disconnected) -> bytes:
        endpoint = structs.replace(CHAT, speaks=form.model in MODELS)
        plan = partial(visit.parts.relay_planner.plan, endpoint, caller, body)
        await visit.parts.relay.answer(caller, plan, visit)
        return b""

    run = await charged(visit, Scope.CHAT, "", body, work)
    return Streamed() if visit.exchange.has_streamed else await page(visit, form, said[:-1], run)


async def show_ended(visit: Visit) -> Response:
    """The conversation after a stream, with the cost of the call as it is stored."""
    form = visit.fields(Ended)
    said = asked_of(form)
    call = await _ended(visit, bytes.fromhex(form.call)) if form.call else None
    account = await accounts.by_id(visit.db, visit.account.id)
    error = form.error
    if not error and call is None:
        error = visit.text(NOT_BEGUN if form.stopped else IN_DOUBT)
    run = Run(
        error=error,
        in_doubt=call is None or call.state == CallState.OPEN,
        call_id=call.id.hex() if call else "",
        units=call.units if call and call.state != CallState.REFUNDED else 0,
        balance=account.balance if account else 0,
        waited_ms=form.waited_ms,
        first_ms=form.first_ms,
        stopped=form.stopped,
        request_id=call.request_id if call else "",
    )
    if not form.answer:
        return await page(visit, form, said[:-1], run)
    audio = _audio_of(visit, form.answer)
    return await page(visit, structs.replace(form, text=""), [*said, form.answer], run, audio)


async def _ended(visit: Visit, call_id: bytes) -> CallRow | None:
    """The account's call of this id, once it has ended, or as it is after two seconds. A stream that was
    stopped ends before its call."""
    query = partial(reports_store.call_of_account, account_id=visit.account.id, call_id=call_id)
    call = await visit.read(query)
    for _ in range(LOOKS_MAX):
        if call is None or call.state != CallState.OPEN:
            break
        await asyncio.sleep(LOOKS_EVERY_S)
        call = await visit.read(query)
    return call


def _audio_of(visit: Visit, answer: str) -> str:
    """The path of the audio, if the answer is the address of one."""
    base = visit.parts.settings.base_url
    return answer.removeprefix(base) if answer.startswith(f"{base}/uploads/") else ""


PAGES = [
    Page("/try", show=show, submit=submit, form_max_bytes=FORM_MAX_BYTES, repeatable=CHARGED_ONCE),
    Page(
        "/try/stream",
        submit=stream,
        form_max_bytes=FORM_MAX_BYTES,
        repeatable="its script sends it once",
    ),
    Page("/try/ended", submit=show_ended, form_max_bytes=FORM_MAX_BYTES, repeatable="it changes nothing"),
]

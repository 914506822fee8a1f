"""The page Try: a chat with one's own units.

With scripts the answer is streamed, and then the page is rendered with the whole answer. The stream, its
charge, its refund and its limits are those of POST /openai/v1/chat/completions. The call has no idempotency
key, so it ends when the client disconnects.
"""

import asyncio
from functools import partial
from typing import Annotated, Any
from urllib.parse import urlsplit

import msgspec
from msgspec import Meta, Struct, field, structs
from starlette.responses import Response

from myna.accounts.keys import Scope, UnverifiedCaller
from myna.channels.routes import NAME_MAX_CHARS, RouteKind, listed
from myna.gateway.chat.intent import speech_text
from myna.gateway.relay.plan import CHAT, RelayPlan
from myna.http.responses import Response as WholeResponse
from myna.office import runs
from myna.office.client_lines import chat_lines
from myna.office.messages import N_
from myna.office.page import Page
from myna.office.runs import Disconnected, Run
from myna.office.visit import Streamed, Visit
from myna.store.batch import CallState
from myna.store.queries import accounts
from myna.store.queries import reports as reports_store
from myna.store.queries.reports import CallRow
from myna.wire.v1 import MODELS

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
        if form.model in MODELS:
            return await visit.parts.chat.complete(caller, body, disconnected)
        plan = partial(visit.parts.relay_planner.plan, CHAT, caller, body)
        whole = await visit.parts.relay.answer(caller, plan, visit)
        return whole.body if isinstance(whole, WholeResponse) else b""

    run = await runs.run(visit, Scope.CHAT, form.once, body, work)
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
        once=form.once if run and run.in_doubt else runs.new_once(),
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
        async def plan() -> RelayPlan:
            planned = await visit.parts.relay_planner.plan(CHAT, caller, body)
            if form.model not in MODELS:
                return planned
            return structs.replace(planned, speaks=speech_text(planned.request.instruction) is not None)

        await visit.parts.relay.answer(caller, plan, visit)
        return b""

    run = await runs.run(visit, Scope.CHAT, "", body, work)
    return Streamed() if visit.has_streamed else await page(visit, form, said[:-1], run)


async def show_ended(visit: Visit) -> Response:
    """The conversation after a stream, with the cost of the call as it is stored."""
    form = visit.fields(Ended)
    said = asked_of(form)
    call = await _ended(visit, bytes.fromhex(form.call)) if form.call else None
    account = await accounts.by_id(visit.db, visit.account.id)
    error = form.error
    if not error and call is None:
        error = visit.text(NOT_BEGUN if form.stopped else runs.IN_DOUBT)
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
    Page("/try", show=show, submit=submit, form_max_bytes=FORM_MAX_BYTES, repeatable=runs.CHARGED_ONCE),
    Page(
        "/try/stream",
        submit=stream,
        form_max_bytes=FORM_MAX_BYTES,
        repeatable="its script sends it once",
    ),
    Page("/try/ended", submit=show_ended, form_max_bytes=FORM_MAX_BYTES, repeatable="it changes nothing"),
]

"""The page Try: a chat with one's own units."""

from functools import partial
from typing import Annotated, Any
from urllib.parse import urlsplit

import msgspec
from msgspec import Meta, Struct, field
from starlette.responses import Response

from myna.accounts.keys import Scope, UnverifiedCaller
from myna.channels.routes import NAME_MAX_CHARS, RouteKind, listed
from myna.gateway.relay.plan import CHAT
from myna.http.responses import Response as WholeResponse
from myna.office import runs
from myna.office.client_lines import chat_lines
from myna.office.messages import N_
from myna.office.page import Page
from myna.office.runs import Disconnected, Run
from myna.office.visit import Visit
from myna.store.queries import config as config_store
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
    await visit.parts.config.at(await visit.read(config_store.version))  # it has the price
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
    config = await visit.read(config_store.load)
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


PAGES = [
    Page(path="/try", show=show, submit=submit, form_max_bytes=FORM_MAX_BYTES, repeatable=runs.CHARGED_ONCE)
]

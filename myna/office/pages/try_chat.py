"""The page Try: a chat with one's own units."""

from functools import partial
from typing import Any
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct, field
from starlette.responses import Response

from myna.keys import Scope
from myna.office import runs
from myna.office.messages import N_
from myna.office.page import Page
from myna.office.request_lines import chat_lines
from myna.office.runs import Run
from myna.office.visit import Visit
from myna.store.queries import config as config_store
from myna.wire.v1 import MODELS, ChatCompletion, ModelId

SAID_MAX = 40
"""Messages of a conversation that the form carries and the model sees."""
FORM_MAX_BYTES = 512 * 1024
_completion = msgspec.json.Decoder(ChatCompletion)


class Chat(Struct):
    """The form. `said` is the conversation so far, the account holder first and then in turns."""

    model: ModelId = "svc-chat"
    text: str = ""
    said: list[str] = field(default_factory=list)
    once: str = ""


async def show(visit: Visit) -> Response:
    """An empty conversation."""
    await visit.parts.config.at(await visit.read(config_store.version))  # it has the price
    return page(visit, Chat(), [])


async def submit(visit: Visit) -> Response:
    """Sends the conversation and shows it with the answer."""
    form = visit.fields(Chat)
    said = asked_of(form)
    body = msgspec.json.encode(request_of(form.model, said))
    run = await runs.run(
        visit,
        Scope.CHAT,
        form.once,
        body,
        lambda caller, disconnected: visit.parts.chat.complete(caller, body, disconnected),
    )
    if run.error:
        return page(visit, form, said[:-1], run)
    completion = _completion.decode(run.answer)
    answer = completion.choices[0].message.content
    audio = urlsplit(completion.audio.url).path if completion.audio else ""
    return page(visit, msgspec.structs.replace(form, text=""), [*said, answer], run, audio)


def asked_of(form: Chat) -> list[str]:
    """The conversation that the model sees: the last turns, and the new message."""
    said = [text.replace("\r\n", "\n") for text in form.said][-SAID_MAX + 1 :]
    return [*said[len(said) % 2 :], form.text]


def request_of(model: ModelId, said: list[str]) -> dict[str, Any]:
    """The body of a request that continues this conversation."""
    return {"model": model, "messages": messages_of(said)}


def messages_of(said: list[str]) -> list[dict[str, str]]:
    """The messages of a conversation in turns."""
    roles = ("user", "assistant")
    return [{"role": roles[number % 2], "content": text} for number, text in enumerate(said)]


def page(visit: Visit, form: Chat, said: list[str], run: Run | None = None, audio: str = "") -> Response:
    """The page with a conversation of whole turns. A message that has no answer is in the form."""
    asked = [*said, form.text] if run and form.text else said[:-1]
    settings = visit.parts.config.settings
    render = partial(
        visit.page,
        "try_chat.html",
        form=form,
        said=messages_of(said),
        models=MODELS,
        run=run,
        audio=audio,
        units=settings.chat_units,
        balance=run.balance if run else visit.account.balance,
        lines=chat_lines(
            visit.base_url + "/v1",
            request_of(form.model, asked or [visit.text(N_("Hello"))]),
        ),
        once=form.once if run and run.in_doubt else runs.new_once(),
    )
    return render(status=run.status if run else 200)


PAGES = [
    Page(path="/try", show=show, submit=submit, form_max_bytes=FORM_MAX_BYTES, repeatable=runs.CHARGED_ONCE)
]

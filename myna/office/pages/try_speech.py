"""The page Try: speech with one's own units. And how words are read: in one's own texts, and in all."""

from collections import Counter
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct
from starlette.responses import Response

from myna.accounts.keys import Scope
from myna.actions.voices import AddWord, RemoveWord
from myna.engines.how_read import Reading, reading
from myna.engines.interface import EngineFailed
from myna.engines.voices import sample_text
from myna.errors import NotFound
from myna.errors.sentences import SentenceError
from myna.office.client_lines import speech_lines
from myna.office.page import Page, Values, live_pages
from myna.office.pages.try_chat import CHARGED_ONCE, Run, charged, new_once
from myna.office.pages.voices import usable_voices
from myna.office.visit import Visit
from myna.speech.plan import check_text
from myna.speech.synthesize import status_text
from myna.store.batch import TaskStatus
from myna.store.queries import tasks
from myna.store.queries import voices as store
from myna.store.queries.accounts import AccountRow
from myna.store.queries.voices import SITE
from myna.voices import lexicon
from myna.wire.v1 import SpeechDone, SpeechOrdered

FORM_MAX_BYTES = 512 * 1024


class Speech(Struct):
    """The form."""

    text: str = ""
    voice_id: str = ""
    speed: str = "1"
    once: str = ""


async def show(visit: Visit) -> Response:
    """The form, with the voice and the text that the address names, else a text in the voice's language."""
    voices = await usable_voices(visit)
    voice_id = visit.parameter("voice") or voices.default
    spoken = [voice.language for voice in (*voices.cloned, *voices.public) if voice.voice_id == voice_id]
    text = visit.parameter("text") or sample_text(spoken[0] if spoken else "")
    return await _page(visit, Speech(text=text, voice_id=voice_id))


async def submit(visit: Visit) -> Response:
    """Has the text spoken and shows the player, or follows the task of a compute node."""
    form = visit.fields(Speech)
    body = msgspec.json.encode(_request(form))
    run = await charged(
        visit,
        Scope.TTS,
        form.once,
        body,
        lambda caller, disconnected: visit.parts.synthesizer.speak(caller, body, disconnected),
    )
    if run.error:
        return await _page(visit, form, run)
    if msgspec.json.decode(run.answer)["mode"] == "sync":
        done = msgspec.json.decode(run.answer, type=SpeechDone)
        return await _page(visit, form, run, audio=urlsplit(done.audio_url).path)
    ordered = msgspec.json.decode(run.answer, type=SpeechOrdered)
    return await _page(visit, form, run, task_id=ordered.id)


async def read(visit: Visit) -> Response:
    """Shows the words and the phonemes that the voice would say, which costs no units."""
    form = visit.fields(Speech)
    voice_id = form.voice_id or (await usable_voices(visit)).default
    try:
        text = check_text(form.text, visit.parts.config.settings.tts_max_chars).text
        words = await lexicon.stored(visit.parts.db, visit.account.id)
        found = await reading(lexicon.applied(text, words), voice_id)
    except SentenceError as error:
        return await _page(visit, form, error=visit.said(error))
    except EngineFailed as failure:
        return await _page(visit, form, error=visit.said_of(failure))
    return await _page(visit, form, reading=found)


async def _task(visit: Visit, task_id: int = 0) -> Values:
    """A task of the account, that of the path if no other, with its state. Raises NotFound."""
    wanted = task_id or visit.number("id")
    task = await visit.read(tasks.of_account, account_id=visit.account.id, task_id=wanted)
    if task is None:
        raise NotFound("There is no such task.")
    final = task.status in (TaskStatus.COMPLETED, TaskStatus.FAILED)
    return {"task": task, "state": status_text(task, visit.renderer.language), "final": final}


def _request(form: Speech) -> dict[str, str]:
    """The body of POST /tts."""
    voice = {"voice_id": form.voice_id} if form.voice_id else {}
    return {"text": form.text, **voice, "speed": form.speed}


async def _page(
    visit: Visit,
    form: Speech,
    run: Run | None = None,
    *,
    audio: str = "",
    task_id: int = 0,
    reading: Reading | None = None,
    error: str = "",
) -> Response:
    voices = await usable_voices(visit)
    every = [*voices.public, *voices.cloned]
    named = Counter((voice.name, voice.language) for voice in every)
    return visit.page(
        "try_speech.html",
        status=run.status if run else 200,
        error=error,
        reading=reading,
        form=form,
        voices=voices,
        alike={voice.voice_id for voice in every if named[voice.name, voice.language] > 1},
        run=run,
        audio=audio,
        waiting=await _task(visit, task_id) if task_id else None,
        units=visit.parts.config.settings.tts_units,
        balance=run.balance if run else visit.account.balance,
        lines=speech_lines(visit.base_url + "/v1", _request(form)),
        once=form.once if run and run.in_doubt else new_once(),
    )


_OWN, _OF_SITE = "/words", "/site/words"


async def show_words(visit: Visit) -> Response:
    """The words, and the form of another one."""
    path, owner = _place(visit)
    rows = await visit.read(store.words, account_id=owner.id if owner else SITE)
    example = AddWord(word="行长", reading="hang2zhang3", account=owner.name if owner else "")
    return visit.page("words.html", place=path, rows=rows, command_words=example.words)


async def add_word(visit: Visit) -> Response:
    """Sets how a word is read."""
    path, owner = _place(visit)
    action = visit.fields(AddWord, account=owner.name if owner else "")
    row = await visit.perform(action, own=owner is not None)
    return visit.redirect(path, "{word} is read as {reading}.", word=row.word, reading=row.reading)


async def remove_word(visit: Visit) -> Response:
    """Removes a word."""
    path, owner = _place(visit)
    action = visit.fields(RemoveWord, account=owner.name if owner else "")
    await visit.perform(action, own=owner is not None)
    return visit.redirect(path, "The word is removed.")


def _place(visit: Visit) -> tuple[str, AccountRow | None]:
    """The page, and the account whose words it has: None for those of the site."""
    of_site = visit.request.url.path.startswith(f"/office{_OF_SITE}")
    return (_OF_SITE, None) if of_site else (_OWN, visit.account)


PAGES = [
    Page(
        "/try/speech",
        show=show,
        submit=submit,
        form_max_bytes=FORM_MAX_BYTES,
        repeatable=CHARGED_ONCE,
    ),
    Page(
        "/try/reading",
        submit=read,
        form_max_bytes=FORM_MAX_BYTES,
        repeatable="it changes nothing",
    ),
    *live_pages("/try/tasks/{id:number}", "try_task.html", _task),
    Page(_OWN, show=show_words, submit=add_word),
    Page(f"{_OWN}/remove", submit=remove_word),
    Page(_OF_SITE, show=show_words, submit=add_word),
    Page(f"{_OF_SITE}/remove", submit=remove_word),
]

"""The voices that an account can use now, and its cloned ones: made from a recording, followed, deleted."""

import asyncio
import shutil
from pathlib import Path

from msgspec import Struct, structs
from starlette.datastructures import UploadFile
from starlette.responses import FileResponse, Response

from myna.actions.media import CloneVoice, DeleteVoice
from myna.engines.interface import EngineVoice
from myna.engines.media.job import SAMPLE_MAX_BYTES, SAMPLE_MAX_S, SAMPLE_MIN_S
from myna.engines.voices import spoken_language
from myna.errors import CommandError, NotFound
from myna.lib.files import remove
from myna.office import forms
from myna.office.page import Page, Values, live_page, live_pages
from myna.office.pages.records import PHRASES
from myna.office.render import N_
from myna.office.visit import Visit
from myna.speech import catalogue
from myna.store.queries import clones as store
from myna.store.queries.clones import CloneRow
from myna.store.queries.config import Config
from myna.store.states import CloneStatus
from myna.voices import clones
from myna.voices.clones import CONSENTS, is_clone


class UsableVoices(Struct, frozen=True):
    """Public voices and the account's cloned ones. `default` is the id of the first one, "" without one."""

    public: list[EngineVoice]
    cloned: list[EngineVoice]
    config: Config

    @property
    def default(self) -> str:
        return next((voice.voice_id for voice in (*self.public, *self.cloned)), "")


async def usable_voices(visit: Visit) -> UsableVoices:
    """The voices that can be spoken now, in the order of GET /voices."""
    parts, config = visit.parts, await visit.config()
    nodes = await parts.capacity.nodes(config)
    ready = await visit.read(store.ready, account_id=visit.account.id) if nodes else []
    return UsableVoices(
        public=catalogue.usable(parts.channels, config, nodes),
        cloned=catalogue.usable_clones(ready, config, nodes),
        config=config,
    )


GENDERS = {"female": N_("female"), "male": N_("male"), "neutral": N_("neutral")}
STATES = {
    CloneStatus.QUEUED: N_("queued"),
    CloneStatus.CLONING: N_("cloning"),
    CloneStatus.READY: N_("ready"),
    CloneStatus.FAILED: N_("failed"),
}
UNFINISHED = (CloneStatus.QUEUED, CloneStatus.CLONING)


class PublicRow(Struct, frozen=True):
    """A line of the table of public voices."""

    voice: EngineVoice
    language: str
    gender: str
    recipe: str
    default: bool
    preview: bool


class CloneView(Struct, frozen=True):
    """A cloned voice. `reason` is why it failed, a node's own sentence if it is none of ours. `able`: a
    compute node that clones in its language is online."""

    clone: CloneRow
    state: str
    reason: str
    language: str
    able: bool

    @property
    def unfinished(self) -> bool:
        return self.clone.status in UNFINISHED


async def cloned_languages(visit: Visit) -> list[str]:
    """The languages in which compute nodes of this site clone voices, whether or not they are online now."""
    return sorted({row.language for row in (await visit.config()).node_clones})


async def show(visit: Visit) -> Response:
    """The public voices that match the filters, and all voices of the account."""
    usable = await usable_voices(visit)
    previews = visit.parts.previews.voices(visit.parts.channels, usable.config)
    recipes = {blend.voice_id: blend.recipe for blend in usable.config.blends}
    rows = [
        PublicRow(
            voice=voice,
            language=visit.renderer.language_name(voice.language),
            gender=visit.text(GENDERS.get(voice.gender, voice.gender)),
            recipe=recipes.get(voice.voice_id, ""),
            default=voice.voice_id == usable.default,
            preview=voice.voice_id in previews,
        )
        for voice in usable.public
    ]
    q, language, gender = (visit.parameter(name).strip()[:200] for name in ("q", "language", "gender"))
    codes = sorted({spoken_language(row.voice.language) for row in rows})
    return visit.page(
        "voices.html",
        rows=[row for row in rows if _matches(row, q, language, gender)],
        languages=[(code, visit.renderer.language_name(code)) for code in codes],
        genders=[(name, visit.text(label)) for name, label in GENDERS.items()],
        q=q,
        spoken=language,
        gender=gender,
        **await _own(visit),
    )


def _matches(row: PublicRow, q: str, language: str, gender: str) -> bool:
    searched = f"{row.voice.name}\n{row.voice.voice_id}\n{row.recipe}".casefold()
    return (
        q.casefold() in searched
        and (not language or spoken_language(row.voice.language) == language)
        and (not gender or row.voice.gender == gender)
    )


async def _own(visit: Visit) -> Values:
    """The account's voices. They are final when none of them is being cloned."""
    owned = await visit.read(store.owned_by, account_id=visit.account.id)
    views = await _views(visit, *(one.clone for one in reversed(owned)))
    clones = bool(await cloned_languages(visit))
    return {"views": views, "clones": clones, "final": not any(view.unfinished for view in views)}


async def _views(visit: Visit, *cloned: CloneRow) -> list[CloneView]:
    """What the page shows of these voices."""
    config = await visit.config()
    nodes = await visit.parts.capacity.nodes(config)
    online = {row.language for row in config.node_clones if row.node_id in nodes}
    return [
        CloneView(
            clone=clone,
            state=visit.text(STATES[CloneStatus(clone.status)]),
            reason=visit.renderer.stored(PHRASES.get(clone.reason, clone.reason)),
            language=visit.renderer.language_name(clone.language),
            able=clone.language in online,
        )
        for clone in cloned
    ]


async def preview(visit: Visit) -> Response:
    """The preview of a public voice, spoken now if it is the first time."""
    voice_id = str(visit.request.path_params["id"])
    usable = await usable_voices(visit)
    voice = next((one for one in usable.public if one.voice_id == voice_id), None)
    if voice is None:
        raise NotFound("There is no such voice.")
    path = await visit.parts.previews.path(visit.parts.channels, usable.config, voice, visit.account.id)
    return FileResponse(path, media_type="audio/mpeg", headers={"Cache-Control": "private, max-age=3600"})


async def own_clone(visit: Visit) -> CloneRow:
    """The cloned voice of the path, if it is one of the account. Raises NotFound."""
    voice_id = str(visit.request.path_params["id"])
    found = None
    if is_clone(voice_id):
        found = await visit.read(store.of_account, account_id=visit.account.id, voice_id=voice_id)
    if found is None:
        raise NotFound("There is no such voice.")
    return found


async def _one(visit: Visit) -> Values:
    """A cloned voice of the account: its state, its preview, its consent."""
    (view,) = await _views(visit, await own_clone(visit))
    return {"view": view, "final": not view.unfinished}


async def show_delete(visit: Visit) -> Response:
    """Says what will happen, and asks for the name."""
    clone = await own_clone(visit)
    words = DeleteVoice(voice_id=clone.voice_id).words
    return visit.page("voice_delete.html", clone=clone, command_words=words)


async def delete(visit: Visit) -> Response:
    """Deletes the voice if its name was typed."""
    clone = await own_clone(visit)
    visit.confirm(clone.name)
    deleted = await visit.perform(DeleteVoice(voice_id=clone.voice_id), own=True)
    return visit.redirect(
        "/voices",
        "The voice {name} is deleted, with its recording. Texts refunded: {count}.",
        name=clone.name,
        count=deleted.refunded,
    )


FORM_MAX_BYTES = SAMPLE_MAX_BYTES + 256 * 1024
TO_READ = {
    "zh": "今天早上我去公园散步，湖边的柳树刚刚发芽。几个孩子在草地上放风筝，一位老人坐在长椅上看报纸。我买了一杯热豆浆，慢慢地走回家。",  # noqa: E501  a text to read aloud
    "en": "This morning I walked through the park. The trees along the lake were just turning green, and some"
    " children were flying kites on the grass. I bought a cup of hot tea and went slowly home.",
}
"""Texts to read aloud, of some 12 seconds, by language."""
NO_NODE = N_("Voices are cloned by compute nodes, and no node of this site does.")
NO_RECORDING = N_("Record your voice, or choose a file.")


async def show_new(visit: Visit) -> Response:
    """The form, in the language of the page."""
    return visit.page(
        "voice_new.html",
        consent=CONSENTS[visit.renderer.language],
        languages=[(code, visit.renderer.language_name(code)) for code in await cloned_languages(visit)],
        to_read=[(code, visit.renderer.language_name(code), text) for code, text in TO_READ.items()],
        seconds_min=SAMPLE_MIN_S,
        seconds_max=SAMPLE_MAX_S,
        bytes_max=SAMPLE_MAX_BYTES,
        command_words=CloneVoice(
            account=visit.account.name,
            name="NAME",
            language="zh",
            sample="recording.wav",
            transcript="TEXT",
            consent=True,
        ).words,
    )


async def clone(visit: Visit) -> Response:
    """Queues the voice for a compute node and shows its state. The upload is a file among the samples
    meanwhile, where the child process that decodes it may read, and where a left-over file is deleted."""
    upload, parts = forms.upload(visit.form, "sample"), visit.parts
    if not await cloned_languages(visit):
        raise CommandError(NO_NODE)
    if upload is None or not upload.size:
        raise CommandError(NO_RECORDING)
    given = {"account": visit.account.name, "sample": _file_name(upload)}
    given["statement"] = CONSENTS[visit.renderer.language]
    action = visit.fields(CloneVoice, **given)
    action.check()
    parts.space.check()
    _, path = await asyncio.to_thread(parts.samples.new)
    try:
        await asyncio.to_thread(_store, upload, path)
        recorded = clones.stored_sample(parts.samples, parts.recordings, path, visit.account.id)
        async with recorded as stored:
            clone = await visit.perform(structs.replace(action, stored=stored), own=True)
    finally:
        await asyncio.to_thread(remove, path)
    return visit.redirect(f"/voices/{clone.voice_id}")


def _store(sample: UploadFile, path: Path) -> None:
    with path.open("xb") as file:
        shutil.copyfileobj(sample.file, file)


def _file_name(sample: UploadFile) -> str:
    """The name of the uploaded file, in printable characters."""
    name = (sample.filename or "").replace("\\", "/").rpartition("/")[2][:100]
    return "".join(char for char in name if char.isprintable()) or "recording"


PAGES = [
    Page("/voices", show=show),
    Page("/voices/new", show=show_new, submit=clone, form_max_bytes=FORM_MAX_BYTES),
    live_page("/voices", "voices.html", _own),
    *live_pages("/voices/{id}", "voice.html", _one),
    Page("/voices/{id}/preview", show=preview),
    Page("/voices/{id}/delete", show=show_delete, submit=delete),
]

"""The voices: listen, search, and the account's cloned ones."""

from functools import partial

from msgspec import Struct
from starlette.responses import FileResponse, Response

from myna.actions.media import DeleteVoice
from myna.engines.interface import EngineVoice
from myna.errors import NotFound
from myna.office import live
from myna.office.live import Part
from myna.office.messages import N_
from myna.office.page import Page
from myna.office.pages import calls
from myna.office.usable_voices import usable_voices
from myna.office.visit import Visit
from myna.speech.catalogue import spoken_language
from myna.store.queries import clones as store
from myna.store.queries import config as config_store
from myna.store.queries.clones import CloneRow
from myna.store.states import CloneStatus
from myna.voices.clones import is_clone

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
    await visit.parts.config.at(await visit.read(config_store.version))
    return sorted({row.language for row in (await visit.parts.config.with_nodes()).node_clones})


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
        own=await _own_part(visit),
        clones=bool(await cloned_languages(visit)),
        languages=[(code, visit.renderer.language_name(code)) for code in codes],
        genders=[(name, visit.text(label)) for name, label in GENDERS.items()],
        q=q,
        spoken=language,
        gender=gender,
    )


def _matches(row: PublicRow, q: str, language: str, gender: str) -> bool:
    searched = f"{row.voice.name}\n{row.voice.voice_id}\n{row.recipe}".casefold()
    return (
        q.casefold() in searched
        and (not language or spoken_language(row.voice.language) == language)
        and (not gender or row.voice.gender == gender)
    )


async def show_live(visit: Visit) -> Response:
    """The table of the account's voices, as server-sent events."""
    return live.stream(visit, partial(_own_part, visit))


async def _own_part(visit: Visit) -> Part:
    """The table of the account's voices. It is final when none of them is being cloned."""
    owned = await visit.read(partial(store.owned_by, account_id=visit.account.id))
    views = [await _view(visit, one.clone) for one in reversed(owned)]
    final = not any(view.unfinished for view in views)
    part = visit.part("voices_own.html", views=views, clones=bool(await cloned_languages(visit)))
    return Part(part, final)


async def _view(visit: Visit, clone: CloneRow) -> CloneView:
    parts = visit.parts
    await parts.config.at(await visit.read(config_store.version))
    config = await parts.config.with_nodes()
    nodes = await parts.capacity.nodes(config)
    return CloneView(
        clone=clone,
        state=visit.text(STATES[CloneStatus(clone.status)]),
        reason=visit.renderer.stored(calls.PHRASES.get(clone.reason, clone.reason)),
        language=visit.renderer.language_name(clone.language),
        able=any(row.language == clone.language and row.node_id in nodes for row in config.node_clones),
    )


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
        query = partial(store.of_account, account_id=visit.account.id, voice_id=voice_id)
        found = await visit.read(query)
    if found is None:
        raise NotFound("There is no such voice.")
    return found


async def show_one(visit: Visit) -> Response:
    """A cloned voice of the account: its state, its preview, its consent."""
    clone = await own_clone(visit)
    return visit.page("voice.html", view=await _view(visit, clone), part=await _one_part(visit))


async def follow_one(visit: Visit) -> Response:
    """The state of a cloned voice, as server-sent events."""
    await own_clone(visit)  # a 404 before the stream begins
    return live.stream(visit, partial(_one_part, visit))


async def _one_part(visit: Visit) -> Part:
    view = await _view(visit, await own_clone(visit))
    return Part(visit.part("voice_state.html", view=view), not view.unfinished)


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
    notice = visit.text("The voice {name} is deleted, with its recording. Texts refunded: {count}.")
    return visit.redirect("/voices", notice.format(name=clone.name, count=deleted.refunded))


PAGES = [
    Page(path="/voices", show=show),
    Page(path="/voices/live", show=show_live),
    Page(path="/voices/{id}", show=show_one),
    Page(path="/voices/{id}/live", show=follow_one),
    Page(path="/voices/{id}/preview", show=preview),
    Page(path="/voices/{id}/delete", show=show_delete, submit=delete),
]

"""Cloning a voice, from a recording made in the browser or from a file."""

import asyncio
import shutil
from pathlib import Path

from msgspec import Struct
from starlette.datastructures import UploadFile
from starlette.responses import Response

from myna.accounts import activity
from myna.engines.media.job import SAMPLE_MAX_BYTES, SAMPLE_MAX_S, SAMPLE_MIN_S
from myna.errors import CommandError
from myna.lib.files import remove
from myna.office import forms
from myna.office.messages import N_
from myna.office.page import Page
from myna.office.pages.voices import cloned_languages
from myna.office.visit import Visit
from myna.voices import clones
from myna.voices.clones import CONSENTS, CloneRequest

FORM_MAX_BYTES = SAMPLE_MAX_BYTES + 256 * 1024
TO_READ = {
    "zh": "今天早上我去公园散步，湖边的柳树刚刚发芽。几个孩子在草地上放风筝，一位老人坐在长椅上看报纸。我买了一杯热豆浆，慢慢地走回家。",  # noqa: E501  a text to read aloud
    "en": "This morning I walked through the park. The trees along the lake were just turning green, and some"
    " children were flying kites on the grass. I bought a cup of hot tea and went slowly home.",
}
"""Texts to read aloud, of some 12 seconds, by language."""
NO_CONSENT = N_(
    "A voice is cloned only with the consent of the person whose voice it is. Tick the box to declare it."
)
NO_NODE = N_("Voices are cloned by compute nodes, and no node of this site does.")
NO_RECORDING = N_("Record your voice, or choose a file.")


class NewVoice(Struct):
    """The form; the recording is the file `sample`."""

    name: str = ""
    language: str = ""
    transcript: str = ""
    consent: str = ""
    consent_by: str = ""


async def show(visit: Visit) -> Response:
    """The form, in the language of the page."""
    return await _form(visit, NewVoice(language=visit.renderer.language, consent_by=visit.account.name))


async def submit(visit: Visit) -> Response:
    """Queues the voice for a compute node and shows its state."""
    form = visit.fields(NewVoice)
    sample = forms.upload(visit.form, "sample")
    try:
        if not await cloned_languages(visit):
            raise CommandError(NO_NODE)
        if sample is None or not sample.size:
            raise CommandError(NO_RECORDING)
        if not form.consent:
            raise CommandError(NO_CONSENT)
        voice_id = await _clone(visit, form, sample)
    except CommandError as error:
        return await _form(visit, form, visit.said(error))
    return visit.redirect(f"/voices/{voice_id}")


async def _clone(visit: Visit, form: NewVoice, sample: UploadFile) -> str:
    """Queues the voice and returns its id. The upload is a file among the samples meanwhile, where the child
    process that decodes it may read, and where a left-over file is deleted."""
    parts = visit.parts
    parts.space.check()
    _, path = await asyncio.to_thread(parts.samples.new)
    request = CloneRequest(
        name=form.name,
        language=form.language,
        transcript=form.transcript,
        sample=path,
        consent_by=form.consent_by or visit.account.name,
        sample_name=_file_name(sample),
        consent_text=CONSENTS[visit.renderer.language],
    )
    try:
        await asyncio.to_thread(_store, sample, path)
        clone = await clones.clone(
            visit.db, parts.samples, parts.recordings, visit.account, request, by=visit.actor
        )
    finally:
        await asyncio.to_thread(remove, path)
    return clone.voice_id


def _store(sample: UploadFile, path: Path) -> None:
    with path.open("xb") as file:
        shutil.copyfileobj(sample.file, file)


def _file_name(sample: UploadFile) -> str:
    """The name of the uploaded file, in printable characters."""
    name = (sample.filename or "").replace("\\", "/").rpartition("/")[2][:100]
    return "".join(char for char in name if char.isprintable()) or "recording"


async def _form(visit: Visit, form: NewVoice, error: str = "") -> Response:
    words = activity.words(
        *("voice", "clone", visit.account.name),
        name=form.name or "NAME",
        language=form.language or "zh",
        sample="recording.wav",
        transcript=form.transcript or "TEXT",
        consent=True,
    )
    return visit.page(
        "voice_new.html",
        status=400 if error else 200,
        form=form,
        consent=CONSENTS[visit.renderer.language],
        languages=[(code, visit.renderer.language_name(code)) for code in await cloned_languages(visit)],
        to_read=[(code, visit.renderer.language_name(code), text) for code, text in TO_READ.items()],
        seconds_min=SAMPLE_MIN_S,
        seconds_max=SAMPLE_MAX_S,
        bytes_max=SAMPLE_MAX_BYTES,
        command_words=words,
        error=error,
    )


PAGES = [Page(path="/voices/new", show=show, submit=submit, form_max_bytes=FORM_MAX_BYTES)]

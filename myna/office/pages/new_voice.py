"""Cloning a voice, from a recording made in the browser or from a file."""

import asyncio
import shutil
from pathlib import Path

from msgspec import structs
from starlette.datastructures import UploadFile
from starlette.responses import Response

from myna.actions.media import CloneVoice
from myna.engines.media.job import SAMPLE_MAX_BYTES, SAMPLE_MAX_S, SAMPLE_MIN_S
from myna.errors import CommandError
from myna.lib.files import remove
from myna.office import forms
from myna.office.messages import N_
from myna.office.page import Page
from myna.office.pages.voices import cloned_languages
from myna.office.visit import Visit
from myna.voices import clones
from myna.voices.clones import CONSENTS

FORM_MAX_BYTES = SAMPLE_MAX_BYTES + 256 * 1024
TO_READ = {
    "zh": "今天早上我去公园散步，湖边的柳树刚刚发芽。几个孩子在草地上放风筝，一位老人坐在长椅上看报纸。我买了一杯热豆浆，慢慢地走回家。",  # noqa: E501  a text to read aloud
    "en": "This morning I walked through the park. The trees along the lake were just turning green, and some"
    " children were flying kites on the grass. I bought a cup of hot tea and went slowly home.",
}
"""Texts to read aloud, of some 12 seconds, by language."""
NO_NODE = N_("Voices are cloned by compute nodes, and no node of this site does.")
NO_RECORDING = N_("Record your voice, or choose a file.")


async def show(visit: Visit) -> Response:
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


async def submit(visit: Visit) -> Response:
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


PAGES = [Page(path="/voices/new", show=show, submit=submit, form_max_bytes=FORM_MAX_BYTES)]

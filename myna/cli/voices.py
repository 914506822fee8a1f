"""myna voice list|hide|show|rename|order|clone|delete"""

import contextlib
import getpass
import os
import stat
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from myna import accounts, clones, marks
from myna.channels import Channels
from myna.cli.desk import Json, read_settings, seconds, show, show_rows, with_database
from myna.clones import Wish
from myna.engines.espeak import Espeak
from myna.engines.listener import Listener
from myna.errors import CommandError
from myna.marks import Offered
from myna.nodes import Nodes, State
from myna.outbound import Outbound
from myna.store import clones as clones_store
from myna.store.audio import AudioStore
from myna.store.clones import CloneRow, CloneStatus, Deleted, OwnedClone
from myna.store.database import Database
from myna.store.samples import SampleStore

app = App(name="voice", help="Public voices, and voices cloned by accounts.")
VoiceId = Annotated[str, Parameter(name="ID")]


@app.command(name="list")
def list_all(*, account: str = "", json: Json = False) -> None:
    """List the public voices with who speaks them, and cloned voices; --account for those of one account."""

    async def work(db: Database) -> list[dict[str, object]]:
        if account:
            owner = await accounts.find(db, account)
            cloned = await clones_store.owned_by(db, owner.id)
        else:
            cloned = await clones.everyone(db)
        nodes = await clones.cloning_nodes(db)
        async with _channels() as channels:
            public = [_public(offer) for offer in await marks.offered(db, channels)]
        return public + [_cloned(owned, nodes.get(owned.clone.language, [])) for owned in cloned]

    rows = with_database(work)
    show_rows(rows, json, empty="There is no voice: nothing that speaks is switched on.")


@app.command
def hide(voice_id: VoiceId, /, *, json: Json = False) -> None:
    """Take a public voice out of the list; it can't be asked for either."""
    _mark(lambda db, channels: marks.hide(db, channels, voice_id, True))
    show({"voice_id": voice_id, "hidden": True}, json)


@app.command(name="show")
def show_again(voice_id: VoiceId, /, *, json: Json = False) -> None:
    """Bring a hidden voice back."""
    _mark(lambda db, channels: marks.hide(db, channels, voice_id, False))
    show({"voice_id": voice_id, "hidden": False}, json)


@app.command
def rename(voice_id: VoiceId, name: str, /, *, json: Json = False) -> None:
    """Give a public voice another name; "" for its own again."""
    _mark(lambda db, channels: marks.rename(db, channels, voice_id, name))
    show({"voice_id": voice_id, "name": name}, json)


@app.command
def order(voice_ids: Annotated[list[str], Parameter(name="ID")], /, *, json: Json = False) -> None:
    """Put these public voices first, in this order; the first one is the default. All others come behind."""
    _mark(lambda db, channels: marks.order(db, channels, voice_ids))
    show({"voice_ids": voice_ids}, json)


@app.command
def clone(
    account: str,
    *,
    name: str,
    language: Annotated[str, Parameter(help="What is spoken in the sample: zh, yue, en, …")],
    sample: Annotated[Path, Parameter(help="A recording of 3 to 60 s of one voice.")],
    transcript: Annotated[str, Parameter(help="What is said in it, word by word.")],
    consent: Annotated[
        bool, Parameter(negative="", help=f"State that this is so, and have it recorded: {clones.CONSENT}")
    ] = False,
    consent_by: Annotated[str, Parameter(help="Who gives the consent; the account unless said.")] = "",
    json: Json = False,
) -> None:
    """Have a compute node clone a voice for an account. Free of charge."""
    _check_readable(sample)
    agreed = f"{consent_by or account} (given to the command line of {_os_user()})" if consent else ""
    wish = Wish(name, language, transcript, sample, agreed)

    async def work(db: Database) -> tuple[CloneRow, str]:
        owner = await accounts.find(db, account)
        note = await _note(db, language)
        listener = Listener()
        try:
            return await clones.clone(db, _samples(), listener, owner, wish), note
        finally:
            await listener.close()

    row, note = with_database(work)
    rest = {"language": row.language, "status": CloneStatus(row.status).name.lower()}
    sample_s = round(row.sample_ms / 1000, 1)
    consent_at = seconds(row.consent_at)
    shown = {"voice_id": row.voice_id, "account": account, "name": row.name, **rest, "sample_s": sample_s}
    noted = {"note": note} if note else {}
    show({**shown, "consent_by": row.consent_by, "consent_at": consent_at, **noted}, json)


@app.command
def delete(voice_id: VoiceId, /, *, json: Json = False) -> None:
    """Remove a cloned voice, its sample and its preview for good. Tasks that wait for it are refunded."""

    async def work(db: Database) -> Deleted:
        audio = AudioStore(read_settings().data_folder / "audio")
        return await clones.delete(db, _samples(), audio, voice_id)

    deleted = with_database(work)
    show({"voice_id": voice_id, "deleted": True, "tasks_refunded": deleted.refunded}, json)


def _mark(change: Callable[[Database, Channels], Awaitable[None]]) -> None:
    async def work(db: Database) -> None:
        async with _channels() as channels:
            await change(db, channels)

    with_database(work)


@contextlib.asynccontextmanager
async def _channels() -> AsyncIterator[Channels]:
    """The channels for what they are known to speak; nothing is asked and nothing started."""
    outbound = Outbound(connections_max=1)
    try:
        espeak = Espeak(processes=1, queue_max=1, job_deadline_s=1.0)
        yield Channels(read_settings(), os.environ, outbound, espeak)
    finally:
        await outbound.close()


def _samples() -> SampleStore:
    return SampleStore(read_settings().data_folder / "samples")


async def _note(db: Database, language: str) -> str:
    """What a voice of this language waits for; empty where a node can clone it now."""
    if language not in await clones.cloning_nodes(db):
        return f"No compute node clones in {language!r} now; the voice waits for one."
    if any(node.state is State.ONLINE and language in node.clones for node in await Nodes(db).list()):
        return ""
    return f"No compute node that clones in {language!r} is online; the voice waits until one is."


def _check_readable(path: Path) -> None:
    try:
        if not stat.S_ISREG(path.stat().st_mode):  # opening a pipe may wait for ever
            raise CommandError(f"{path} is no regular file; name a recording.")
        with path.open("rb"):
            return
    except OSError as error:
        raise CommandError(f"{path} can't be read: {error.strerror}.") from None


def _os_user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a user of the system without a name
        return f"user {os.getuid()}"


def _public(offer: Offered) -> dict[str, object]:
    voice = offer.voice
    return {
        "voice_id": voice.voice_id,
        "name": voice.name,
        "gender": voice.gender,
        "language": voice.language,
        "source": "public",
        "by": list(offer.by),
        "place": offer.mark.place,
        "hidden": bool(offer.mark.hidden),
        "account": "",
        "status": "",
        "reason": "",
    }


def _cloned(owned: OwnedClone, nodes: list[str]) -> dict[str, object]:
    voice = clones.voice_of(owned.clone)
    return {
        "voice_id": voice.voice_id,
        "name": voice.name,
        "gender": voice.gender,
        "language": voice.language,
        "source": "clone",
        "by": [f"node {name}" for name in nodes],
        "place": 0,
        "hidden": False,
        "account": owned.account,
        "status": CloneStatus(owned.clone.status).name.lower(),
        "reason": owned.clone.reason,
    }

"""Changes that come with files: cloned voices, each made from a sample and deleted with it, and the deletion
of speech records with their audio. A blend is deleted as a cloned voice is."""

import asyncio
import os
import re
import secrets
import unicodedata
from collections.abc import Sequence
from typing import Annotated

from msgspec import structs

from myna.accounts.accounts import find
from myna.actions import Action, Change, Field
from myna.config import MIB, settings_of
from myna.errors import CommandError
from myna.lib.names import check_name
from myna.settings import Settings
from myna.store.database import Database
from myna.store.files.named_files import AudioStore, SampleStore
from myna.store.files.storage import check_storage, open_storage
from myna.store.queries import clones as store
from myna.store.queries import config as config_store
from myna.store.queries import site, tasks, voices
from myna.store.queries.clones import CloneRow, Deleted, NewClone
from myna.voices.clones import CONSENT, StoredSample
from myna.wire.farm import CLONE_PREFIX

CLONES_MAX = 100
"""Voices of one account, including failed ones."""
NAME_MAX_CHARS = 100
TRANSCRIPT_MAX_CHARS = 1000
CONSENT_BY_MAX_CHARS = 200
RECORDS_MAX = 200
"""That one change deletes."""
_LANGUAGE = re.compile(r"[a-z]{2,3}")


class CloneVoice(Action[CloneRow], frozen=True):
    """Have a compute node clone a voice for an account. Free of charge."""

    command = "voice clone"
    account: Annotated[str, Field("The account that the voice belongs to.", argument="ACCOUNT")]
    name: Annotated[str, Field("The name of the voice.")]
    language: Annotated[str, Field("The language of the sample: zh, yue, en, …")]
    sample: Annotated[str, Field("A recording of 3 to 60 s of one voice.", value="FILE", label="Recording")]
    transcript: Annotated[str, Field("The words spoken in the sample, exactly.", value="TEXT")]
    consent: Annotated[bool, Field(f"Confirm and record this statement: {CONSENT}")] = False
    consent_by: Annotated[
        str, Field("Who gives the consent; default: the account.", value="NAME", label="Who declares this")
    ] = ""
    statement: Annotated[str, Field("The statement, as it was shown.", secret=True)] = CONSENT
    stored: Annotated[StoredSample | None, Field("The sample, checked and stored.", secret=True)] = None

    def check_values(self) -> None:
        if not self.consent:
            raise CommandError(
                "A voice is cloned only with the consent of the person whose voice it is. Declare the"
                " consent: {consent}",
                "consent",
                consent=self.statement,
            )
        check_name(self.name, NAME_MAX_CHARS)
        if self.consent_by:
            check_name(self.consent_by, CONSENT_BY_MAX_CHARS, "consent_by")
        if not _LANGUAGE.fullmatch(self.language):
            raise CommandError(
                "The language must be its code alone, such as zh, yue or en; it is {language!r}.",
                language=self.language,
            )
        transcript = self._in_a_line()
        if not any(unicodedata.category(char)[0] in "LN" for char in transcript):
            raise CommandError(
                "The transcript must be what is said in the sample; it has no letter or digit.",
                "transcript",
            )
        if len(transcript) > TRANSCRIPT_MAX_CHARS:
            raise CommandError(
                "The transcript may have {chars_max} characters; it has {chars}.",
                "transcript",
                chars_max=TRANSCRIPT_MAX_CHARS,
                chars=len(transcript),
            )
        if any(unicodedata.category(char) in ("Cc", "Cs") for char in transcript):
            raise CommandError("The transcript contains a control character.", "transcript")

    def _in_a_line(self) -> str:
        return " ".join(self.transcript.split())

    async def run(self, change: Change) -> CloneRow:
        if self.stored is None:
            raise AssertionError("a voice is cloned from a sample that was stored")
        account = await change.account(self.account)
        consent_by = self.consent_by or account.name
        given = "in the back office by" if change.by.account_id else "to the command line of"
        new = NewClone(
            voice_id=CLONE_PREFIX + secrets.token_hex(16),
            account_id=account.id,
            name=self.name,
            language=self.language,
            transcript=self._in_a_line(),
            sample=self.stored.name,
            sample_bytes=self.stored.size_bytes,
            sample_sha256=self.stored.sha256,
            sample_ms=self.stored.ms,
            consent_by=f"{consent_by} (given {given} {change.by.name})",
            consent_text=self.statement,
        )
        if not await store.add(change.db, new, CLONES_MAX):
            raise CommandError(
                "The account {name!r} has {clones_max} cloned voices, the maximum; delete one first.",
                name=account.name,
                clones_max=CLONES_MAX,
            )
        mib_max = settings_of(await config_store.load(change.db)).account_storage_mib
        if mib_max and await site.stored_bytes(change.db, account.id) > mib_max * MIB:
            raise CommandError(
                "The account {name!r} may store {mib_max} MiB of audio and samples"
                " (account_storage_mib), and this sample would exceed that. Delete some of its"
                " voices, keep audio for fewer days (audio_keep_days), or raise the quota.",
                name=account.name,
                mib_max=mib_max,
            )
        change.performed = [structs.replace(self, transcript=new.transcript, consent_by=consent_by)]
        row = await store.by_voice_id(change.db, new.voice_id)
        if row is None:
            raise AssertionError("a row that was added in this transaction")
        return row


class DeleteVoice(Action[Deleted], frozen=True):
    """Delete a blend, or a cloned voice with its sample and its preview, whose tasks are refunded."""

    command = "voice delete"
    voice_id: Annotated[str, Field("The id of the voice in `myna voice list`.", argument="ID", label="Voice")]

    async def prepare(self, db: Database, settings: Settings, owner_id: int | None) -> None:
        """Deletes the preview first, since it is public."""
        found = await store.by_voice_id(db, self.voice_id)
        if found is not None and owner_id not in (None, found.account_id):
            raise self._unknown()
        if found is not None and found.preview:
            await _delete_files(db, settings, audio=[found.preview])

    async def run(self, change: Change) -> Deleted:
        deleted = await store.delete(change.db, self.voice_id)
        if deleted is not None:
            change.account_id = deleted.account_id
            # The sample last: the voice needs it until it is deleted. A node may have made a preview since
            # `prepare`.
            audio, samples = (list(filter(None, [name])) for name in (deleted.preview, deleted.sample))
            change.after.append(lambda db: _delete_files(db, change.settings, audio=audio, samples=samples))
            return deleted
        if change.owner_id is not None or not await voices.delete_blend(change.db, self.voice_id):
            raise self._unknown()
        return Deleted(account_id=0, sample="", preview="", refunded=0)

    def _unknown(self) -> CommandError:
        return CommandError("There is no blend or cloned voice {voice_id!r}.", voice_id=self.voice_id)


class DeleteRecords(Action[int], frozen=True):
    """Delete finished records: their text and audio. The calls and their units stay."""

    command = "record delete"
    account: Annotated[str, Field("The name of the account.", argument="ACCOUNT")]
    ids: Annotated[tuple[int, ...], Field("The ids of the records.", argument="ID")]

    def check_values(self) -> None:
        if not 1 <= len(set(self.ids)) <= RECORDS_MAX:
            raise CommandError("Name 1 to {records_max} records.", records_max=RECORDS_MAX)

    async def prepare(self, db: Database, settings: Settings, owner_id: int | None) -> None:
        """Deletes the files first: if the process dies in between, the records are still there and can be
        deleted again."""
        account = await find(db, self.account)
        found = {} if owner_id not in (None, account.id) else await tasks.deletable(db, account.id, self.ids)
        if missing := sorted({*self.ids} - found.keys()):
            raise CommandError(
                "{name!r} has no finished record {missing}.", name=account.name, missing=missing[0]
            )
        await _delete_files(db, settings, audio=[name for name in found.values() if name])

    async def run(self, change: Change) -> int:
        account = await change.account(self.account)
        wanted = sorted(set(self.ids))
        await tasks.delete(change.db, account.id, wanted)
        change.performed = [structs.replace(self, ids=tuple(wanted))]
        return len(wanted)


async def _delete_files(
    db: Database, settings: Settings, *, audio: Sequence[str] = (), samples: Sequence[str] = ()
) -> None:
    """Deletes these, where they exist. Raises CommandError if the storage is not this installation's,
    StorageUnavailable."""
    if not audio and not samples:
        return
    storage = open_storage(settings, os.environ)
    await check_storage(db, storage)
    for files, names in ((AudioStore(storage), audio), (SampleStore(storage), samples)):
        await asyncio.to_thread(files.each, files.delete, names)

"""A power failure loses what SQLite has not synced: every answered call is in the books all the same."""

import asyncio
import random
import shutil
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path

import apsw
import pytest
from msgspec import structs

from myna.errors import InvalidRequest
from myna.store.batch import CallState, Charge, End, NewTask, TaskStatus
from tests.ledger.ledger_service import LedgerService, ledger_service_on
from tests.store.books import Books, Customer, books_of, charge_of, keep_of

UNITS = 1_000_000
CUTS = 25


class _File(apsw.VFSFile):
    """A file of SQLite. Its content at the last sync is what the disk has."""

    def __init__(self, disk: "Disk", name: str | apsw.URIFilename | None, flags: list[int]) -> None:
        super().__init__("unix", name, flags)
        self._disk = disk
        self._path = Path(name.filename() if isinstance(name, apsw.URIFilename) else name or "")

    def xSync(self, flags: int) -> None:
        super().xSync(flags)
        self._disk.synced[self._path.name] = self._path.read_bytes()
        self._disk.syncs += 1


class Disk(apsw.VFS):
    """The default file system of SQLite, which knows what a power failure leaves."""

    def __init__(self) -> None:
        super().__init__("synced", "unix", makedefault=True)
        self.synced: dict[str, bytes] = {}
        self.syncs = 0

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> apsw.VFSFile:
        return _File(self, name, flags)

    def left(self, folder: Path, chance: random.Random) -> dict[str, bytes]:
        """What a power failure leaves now: what was synced, and perhaps a part of what was appended since."""
        found = dict(self.synced)
        log = folder / "myna.sqlite-wal"
        written, synced = log.read_bytes(), found.get(log.name, b"")
        if written.startswith(synced) and chance.random() < 0.5:
            found[log.name] = written[: chance.randint(len(synced), len(written))]
        return found


@pytest.fixture
def disk() -> Iterator[Disk]:
    made = Disk()
    yield made
    apsw.set_default_vfs("unix")
    made.unregister()


@pytest.fixture
async def books(disk: Disk, tmp_path: Path) -> AsyncIterator[Books]:
    async with books_of("", tmp_path / "data") as made:
        disk.synced.setdefault("myna.sqlite", (made.folder / "myna.sqlite").read_bytes())
        yield made


async def test_a_charge_is_synced_with_its_calls_end_and_an_order_at_once(books: Books, disk: Disk) -> None:
    customer = await books.customer()

    async def syncs(ends: Sequence[End], charges: Sequence[Charge]) -> int:
        before = disk.syncs
        await books.db.commit_batch(ends, charges)
        return disk.syncs - before

    chat, task = charge_of(customer), NewTask("x", "v", 1.0, TaskStatus.QUEUED)
    assert await syncs([], [chat]) == 0
    assert await syncs([keep_of(chat)], []) == 1
    assert await syncs([], [structs.replace(charge_of(customer), task=task)]) == 1
    assert await syncs([], [charge_of(customer)]) == 0
    before = disk.syncs
    await books.customer()
    assert disk.syncs > before


class Site:
    """Clients of one service, and what they were told: the ids of kept calls and of refunded ones."""

    def __init__(self, service: LedgerService) -> None:
        self.service = service
        self.kept: list[bytes] = []
        self.open: set[bytes] = set()

    async def client(self, customer: Customer, seed: int) -> None:
        chance = random.Random(seed)
        while True:
            try:
                async with await self.service.admit(customer, self.service.order(units=3)) as call:
                    self.open.add(call.id)
                    await asyncio.sleep(chance.random() * 0.004)
                    if chance.random() < 0.3:
                        raise InvalidRequest("refunded")
                    await call.keep("")
                self.kept.append(call.id)
            except InvalidRequest:
                pass
            finally:
                self.open.discard(call.id)


async def test_every_answered_call_is_in_the_books_after_the_power_failed(
    books: Books, disk: Disk, tmp_path: Path
) -> None:
    chance = random.Random(1)
    customers = [await books.customer(UNITS) for _ in range(3)]
    cuts: list[tuple[list[bytes], set[bytes], dict[str, bytes]]] = []
    async with ledger_service_on(books.db) as service:
        site = Site(service)
        clients = [asyncio.create_task(site.client(customer, n)) for n, customer in enumerate(customers)]
        for _ in range(CUTS):
            await asyncio.sleep(chance.random() * 0.02)
            kept, begun = list(site.kept), set(site.open)
            cuts.append((kept, begun, disk.left(books.folder, chance)))
        for client in clients:
            client.cancel()
        await asyncio.gather(*clients, return_exceptions=True)
    lost = 0
    for number, (kept, begun, files) in enumerate(cuts):
        folder = tmp_path / f"cut-{number}"
        folder.mkdir(mode=0o700)
        for name, data in files.items():
            (folder / name).write_bytes(data)
        lost += await check(folder, customers, kept, begun)
        shutil.rmtree(folder)
    assert len(cuts[-1][0]) > CUTS and lost, "no charge was lost, so no power was cut"


async def check(folder: Path, customers: list[Customer], kept: list[bytes], begun: set[bytes]) -> int:
    """Starts a service on what is left of a disk, and returns how many charges of open calls are gone."""
    left = Books("", folder)
    left.db = await left.open_again()
    try:
        async with ledger_service_on(left.db) as service:
            await service.ledger.recover()
        rows = {row[0]: CallState(row[1]) for row in await left.db.fetch("SELECT id, state FROM calls")}
        assert all(rows.get(call) is CallState.KEPT for call in kept), "an answered call is gone, or not kept"
        assert CallState.OPEN not in rows.values()
        spent = 3 * list(rows.values()).count(CallState.KEPT)
        ((balance,),) = await left.db.fetch("SELECT sum(balance) FROM accounts")
        assert balance == len(customers) * UNITS - spent
        assert await left.audit() == []
    finally:
        await left.db.close()
    return len(begun - rows.keys())

"""The floor: Myna's own edge, parser, intent and outbound client, with a store whose calls return constants.

What Myna adds to it is what accounts cost: the charge, the keep, and the waiting for both.
"""

import os

from myna import settings
from myna.http import server
from myna.server import app
from myna.server.service import Service
from myna.settings import Settings
from myna.store.batch import Charge, Charged, ChargeOutcome, End, EndOutcome
from myna.store.database import Database
from myna.store.group_commit import GroupCommit


class ConstantCommits(GroupCommit):
    """Every charge is granted and every end is done, at once and nowhere."""

    async def charge(self, charge: Charge, wait_s: float) -> ChargeOutcome:
        return Charged(account_id=1, key_id=1, balance=0, task_id=0)

    async def end(self, end: End, wait_s: float | None) -> EndOutcome:
        return EndOutcome.DONE


class Floor(Service):
    """Myna without the books."""

    @staticmethod
    def commits_of(db: Database, settings: Settings) -> GroupCommit:
        return ConstantCommits(db, settings.queue_max)


if __name__ == "__main__":
    found, _ = settings.load(os.environ)
    server.run(app.create(found, os.environ, Floor), found)

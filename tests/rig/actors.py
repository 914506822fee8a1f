"""Who makes the changes of a test."""

from myna import actions
from myna.accounts.activity import Actor
from myna.actions import Action, R
from myna.channels.channels import Channels
from myna.settings import Settings
from myna.store.database import Database

TESTER = Actor(account_id=0, name="tester", address="")


async def perform(
    db: Database,
    action: Action[R],
    *,
    settings: Settings | None = None,
    channels: Channels | None = None,
    owner_id: int | None = None,
    by: Actor = TESTER,
) -> R:
    """Makes a change as the tester, for this account if given."""
    return await actions.perform(
        db, action, by=by, settings=settings or Settings(), channels=channels, owner_id=owner_id
    )

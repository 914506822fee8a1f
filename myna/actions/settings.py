"""Changes of site settings."""

from typing import Annotated

from myna import config
from myna.actions import Action, Change, Field
from myna.store.queries import config as store


class SetSetting(Action[None], frozen=True):
    """Change one site setting; running servers use it at once."""

    command = "settings set"
    name: Annotated[str, Field("The name of a site setting in `myna settings list`.", argument="NAME")]
    value: Annotated[str, Field("Its new value.", argument="VALUE")]

    def check(self) -> None:
        config.check(self.name, self.value)

    async def run(self, change: Change) -> None:
        await store.set_setting(change.db, self.name, self.value)

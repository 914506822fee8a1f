"""Changes of the site itself: its settings, and the models on its machine."""

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


class _OfModel(Action[None], frozen=True):
    """What another program does, which is recorded: it takes minutes, and needs no database. So the commands
    are those of `myna.cli.models`."""

    name: Annotated[str, Field("The name of a model in `myna models list`.", argument="NAME")]

    async def run(self, change: Change) -> None:
        return


class GetModel(_OfModel, frozen=True):
    """Fetch a published model, check every file, and put it into the data folder."""

    command = "models get"


class RemoveModel(_OfModel, frozen=True):
    """Remove a model from the data folder, and what an interrupted download left."""

    command = "models remove"

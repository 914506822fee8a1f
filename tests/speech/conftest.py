"""Accounts of services that the tests of a file share."""

from collections.abc import Callable

import pytest

from tests.conformance.caller import Caller
from tests.rig.service import Service

NewCaller = Callable[..., Caller]


@pytest.fixture
def new_caller() -> NewCaller:
    """Makes an account of a running service, with a key."""

    def made(service: Service, units: int = 20) -> Caller:
        account = service.account(units=units)
        return Caller(service, account, account.key())

    return made


def balance(caller: Caller) -> int:
    return int(caller.service.cli("account", "show", caller.account.name)["balance"])


def voice_ids(caller: Caller) -> list[str]:
    return [voice["voice_id"] for voice in caller.get("/voices").json["data"]]

"""Stateful tests of Hypothesis on new books of each example, on either database."""

import asyncio
import contextlib
import gc
import itertools
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine, run_state_machine_as_test

from tests.rig.postgres import Postgres
from tests.store.books import Books, books_of

T = TypeVar("T")
Run = Callable[..., None]


class BooksMachine(RuleBasedStateMachine):
    """A machine with new books. `opened` is closed at the end of each example."""

    runner: ClassVar[asyncio.Runner]
    new_books: ClassVar[Callable[[], AbstractAsyncContextManager[Books]]]

    def __init__(self) -> None:
        super().__init__()
        self.opened = AsyncExitStack()
        self.books: Books = self.run(self.opened.enter_async_context(type(self).new_books()))

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self.runner.get_loop().run_until_complete(work)  # `Runner.run` installs a handler each time

    def teardown(self) -> None:
        self.run(self.opened.aclose())


def with_examples(sqlite_examples: int) -> pytest.MarkDecorator:
    """Runs `run_machine` on each database: with a few examples, and with more of them for a release."""
    return pytest.mark.parametrize(
        "database, examples",
        [
            ("sqlite", sqlite_examples),
            ("postgresql", 1),
            pytest.param("sqlite", 100, marks=pytest.mark.release),
            pytest.param("postgresql", 15, marks=pytest.mark.release),
        ],
    )


@pytest.fixture
def run_machine(database: str, examples: int, request: pytest.FixtureRequest, tmp_path: Path) -> Run:
    """Runs a BooksMachine on this database. Other settings are those of Hypothesis."""
    numbers = itertools.count()

    @contextlib.asynccontextmanager
    async def new_books() -> AsyncIterator[Books]:
        folder = tmp_path / str(next(numbers))
        postgres: Postgres | None = None if database == "sqlite" else request.getfixturevalue("postgres")
        url = postgres.fresh_books() if postgres else ""
        try:
            async with books_of(url, folder) as books:
                yield books
        finally:
            if postgres:
                postgres.drop(url)

    def run(machine: type[BooksMachine], **more: Any) -> None:
        machine.new_books = staticmethod(new_books)
        gc.collect()  # finalizers that run while Hypothesis parses the rules upset CPython (gh-106905)
        more = {"max_examples": examples, "suppress_health_check": list(HealthCheck)} | more
        with asyncio.Runner() as machine.runner:
            run_state_machine_as_test(machine, settings=settings(**more))

    return run

"""Stateful tests of Hypothesis, each example on a new database."""

import asyncio
import contextlib
import gc
import itertools
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine, run_state_machine_as_test

from tests.rig.postgres import Postgres
from tests.store.books import Books, books_of

T = TypeVar("T")


class BooksMachine(RuleBasedStateMachine):
    """A machine whose rules are methods that await nothing: `run` does."""

    runner: ClassVar[asyncio.Runner]
    new_books: ClassVar[Callable[[], AbstractAsyncContextManager[Books]]]

    def __init__(self) -> None:
        super().__init__()
        self.opened = contextlib.AsyncExitStack()
        self.books: Books = self.run(self.opened.enter_async_context(type(self).new_books()))

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self.runner.get_loop().run_until_complete(work)  # `Runner.run` minds Ctrl-C each time

    def teardown(self) -> None:
        self.run(self.opened.aclose())


def run_machine(
    machine: type[BooksMachine], database: str, request: pytest.FixtureRequest, folder: Path, **options: Any
) -> None:
    """Runs examples on databases of this kind. `options` are settings of Hypothesis."""
    numbers = itertools.count()

    @contextlib.asynccontextmanager
    async def new_books() -> AsyncIterator[Books]:
        below = folder / str(next(numbers))
        if database == "sqlite":
            async with books_of("", below) as books:
                yield books
            return
        postgres: Postgres = request.getfixturevalue("postgres")
        url = postgres.fresh_books()
        try:
            async with books_of(url, below) as books:
                yield books
        finally:
            postgres.drop(url)

    machine.new_books = staticmethod(new_books)
    gc.collect()  # finalizers that run while Hypothesis parses the rules upset CPython (gh-106905)
    with asyncio.Runner() as machine.runner:
        options |= {"deadline": None, "database": None, "suppress_health_check": list(HealthCheck)}
        run_state_machine_as_test(machine, settings=settings(**options))

"""Demos that a test runs are ended after it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.demo.running import DEADLINE_S, Demo, DemoMaker


@pytest.fixture
def run_demo(tmp_path: Path) -> Iterator[DemoMaker]:
    made: list[Demo] = []

    def run(module: str = "demo", **env: str) -> Demo:
        made.append(Demo(tmp_path, module, **env))
        return made[-1]

    yield run
    for demo in made:
        demo.process.terminate()
        demo.process.wait(DEADLINE_S)

"""The version moves with the schema, and the changelog with the version."""

import re

import pytest

from myna import __version__
from myna.store.migrate import newest
from tests.docs.pages import ROOT

CHANGELOG = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("dialect", ["sqlite", "postgresql"])
def test_the_second_number_of_the_version_is_the_schemas(dialect: str) -> None:
    assert int(__version__.split(".")[1]) == newest(dialect)


def test_the_changelog_begins_with_this_version() -> None:
    assert re.findall(r"^## (\S+)", CHANGELOG, re.MULTILINE)[0] == __version__

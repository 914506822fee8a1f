"""Every rule of the security page names a source and tests that exist."""

import re

import pytest

from tests.docs.pages import DOCS, ROOT, code, table

RULES = table(DOCS / "security.md", "rule")


@pytest.mark.parametrize("row", RULES, ids=lambda row: row[0])
def test_a_rule_has_a_source_and_tests_that_exist(row: list[str]) -> None:
    _, source, tests = row
    assert re.fullmatch(r"\d+\.\d+\.\d+(, \d+\.\d+\.\d+)*", source)
    assert code(tests)
    for named in code(tests):
        file, _, name = named.partition("::")
        assert f"def test_{name}(" in (ROOT / "tests" / file).read_text("utf-8"), named

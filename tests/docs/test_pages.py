"""Settings, metrics and links in the documentation are those of the code."""

from pathlib import Path

import pytest
from msgspec import structs
from prometheus_client.metrics import MetricWrapperBase

from myna import config, settings
from myna.settings import PREFIX, Settings
from myna.telemetry import metrics
from tests.docs.pages import DOCS, PAGES, README, anchors, code, links, rows

CONFIGURATION = DOCS / "configuration.md"
EMPTY = "(empty)"


def documented_defaults() -> dict[str, str]:
    """Every row of the configuration page: the name and its default."""
    found: dict[str, str] = {}
    for name, default, *_ in rows(CONFIGURATION):
        if name.startswith("`"):
            assert code(name)[0] not in found, name
            found[code(name)[0]] = "" if default == EMPTY else code(default)[0]
    return found


def test_the_configuration_page_has_every_setting_with_its_default_and_no_other() -> None:
    process = {PREFIX + name.upper(): str(value) for name, value in structs.asdict(Settings()).items()}
    of_site = {name: str(value) for name, value in structs.asdict(config.SiteSettings()).items()}
    assert documented_defaults() == process | of_site
    assert {name: str(config.SETTINGS[name].parse(value)) for name, value in of_site.items()} == of_site
    assert all(setting.meaning for setting in settings.SETTINGS.values())


def test_the_readme_names_settings_that_exist_with_their_defaults() -> None:
    documented = documented_defaults()
    shown = [row for row in rows(README) if row[0].startswith(f"`{PREFIX}")]
    assert shown
    for names, default, *_ in shown:
        assert set(code(names)) <= documented.keys()
        assert set(code(default)) == {documented[name] for name in code(names)} - {""}


def test_the_operations_page_has_every_metric_and_no_other() -> None:
    ours = {}
    for value in vars(metrics).values():
        if isinstance(value, MetricWrapperBase):
            (described,) = value.describe()
            suffix = "_total" if described.type == "counter" else ""
            ours[described.name + suffix] = described.type
    documented = {
        code(row[0])[0]: row[1] for row in rows(DOCS / "operations.md") if row[0].startswith("`myna_")
    }
    assert documented == ours


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_link_leads_to_a_file_that_exists(page: Path) -> None:
    broken = [to for to in links(page) if not (page.parent / to.partition("#")[0]).exists()]
    assert not broken


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_link_into_a_page_leads_to_a_heading_of_it(page: Path) -> None:
    broken = []
    for to in links(page):
        file, _, anchor = to.partition("#")
        target = page.parent / file if file else page
        if anchor and anchor not in anchors(target):
            broken.append(to)
    assert not broken


def test_every_page_can_be_reached_from_the_readme() -> None:
    seen, waiting = {README}, [README]
    while waiting:
        page = waiting.pop()
        for to in links(page):
            target = (page.parent / to.partition("#")[0]).resolve()
            found = sorted(target.glob("*.md")) if target.is_dir() else [target]
            waiting += [page for page in found if page.suffix == ".md" and page not in seen]
            seen.update(found)
    assert set(PAGES) <= seen


def test_the_title_of_a_decision_has_the_number_of_its_file() -> None:
    for page in (DOCS / "decisions").glob("*.md"):
        assert page.read_text("utf-8").startswith(f"# {page.name[:4]}: "), page.name

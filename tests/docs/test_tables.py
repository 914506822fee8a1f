"""The pages say what the code has: settings, metrics, commands, links."""

import re
import tomllib
from pathlib import Path

from prometheus_client.metrics import MetricWrapperBase

from demo import tiny_voices
from myna import config, settings
from myna.lib.telemetry import metrics
from myna.node.engines import CONFIG_FILE, load_config
from tests.docs.generated import written
from tests.docs.pages import DOCS, ROOT, code, fences, rows, table

NODES = DOCS / "nodes.md"
RULES = DOCS / "project" / "security-rules.md"
INSTALL = (DOCS / "install.md").read_text(encoding="utf-8")


def test_the_pages_have_what_make_docs_writes() -> None:
    for page, text in written().items():
        assert page.read_text(encoding="utf-8") == text, f"{page.name}: run make docs"


def test_each_setting_accepts_its_default() -> None:
    for setting in [*config.SETTINGS.values(), *settings.SETTINGS.values()]:
        if setting.kind.default:
            assert setting.kind.read(str(setting.kind.default)) == setting.kind.default
        assert setting.english and setting.chinese


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


# ---- compute nodes


def test_the_node_toml_of_the_page_is_valid(tmp_path: Path) -> None:
    (example,) = [fence.text for fence in fences(NODES) if fence.language == "toml"]
    (tmp_path / CONFIG_FILE).write_text(example, encoding="utf-8")
    own, cloner = re.findall('folder = "(.*)"', example)
    tiny_voices.vits(tmp_path / own)
    (tiny_voices.zipvoice(tmp_path / cloner) / "lexicon-en-us.txt").touch()
    config = load_config([tmp_path / CONFIG_FILE])
    assert (config.slots, config.shutdown_grace_s) == (2, 20)
    embedded, named, clones = config.engines
    assert [voice.voice_id for voice in embedded.voices] == ["yue-female-1", "yue-male-1"]
    assert [voice.name for voice in named.voices] == ["林"]
    assert (clones.voices, clones.clones) == ((), ("zh", "en"))


# ---- systemd


def here_document(mark: str) -> str:
    """The text of the page between `<<'MARK'` and `MARK`."""
    (found,) = re.findall(rf"<<'{mark}'\n(.*?)^{mark}$", INSTALL, re.MULTILINE | re.DOTALL)
    return str(found)


def test_the_configuration_uses_settings_that_exist() -> None:
    assert set(tomllib.loads(here_document("TOML"))) <= set(settings.SETTINGS)


def test_service_and_commands_read_one_configuration() -> None:
    assert "Environment=MYNA_CONFIG=/etc/myna/myna.toml" in (ROOT / "deploy/systemd/myna.service").read_text()
    assert "MYNA_CONFIG=/etc/myna/myna.toml" in here_document("SH")


# ---- security


def test_a_rule_or_a_pool_of_the_security_page_names_tests_that_exist() -> None:
    absent = []
    for rule, *_, tests in [*table(RULES, "rule"), *table(RULES, "pool")]:
        assert code(tests), rule
        for named in code(tests):
            path, _, name = named.partition("::")
            file = ROOT / "tests" / path
            if not file.exists() or f"def test_{name}(" not in file.read_text("utf-8"):
                absent.append(named)
    assert absent == []


# ---- links

ENTRIES = [ROOT / name for name in ("README.md", "README.zh.md", "SECURITY.md", "CHANGELOG.md")]
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
_CODE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)


def prose(page: Path) -> str:
    return _CODE.sub("", page.read_text(encoding="utf-8"))


def anchors(page: Path) -> set[str]:
    """The anchors of the page's headings, as GitHub makes them."""
    headings = _HEADING.findall(prose(page))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_every_link_leads_to_a_file_and_a_heading() -> None:
    broken = []
    for page in (*ENTRIES, *sorted(DOCS.rglob("*.md"))):
        for link in _LINK.findall(prose(page)):
            path, _, anchor = link.partition("#")
            target = (page.parent / path).resolve() if path else page
            if "://" not in link and not (target.exists() and (not anchor or anchor in anchors(target))):
                broken.append(f"{page.relative_to(ROOT)}: {link}")
    assert broken == []

"""The pages say what the code has: settings, metrics, commands, links."""

import re
import tomllib
from pathlib import Path

from prometheus_client.metrics import MetricWrapperBase

from demo import tiny_voices
from myna import config, settings
from myna.cli import build
from myna.lib.telemetry import metrics
from myna.node.engines import CONFIG_FILE, load_config
from myna.settings import load
from tests.docs.generated import commands, written
from tests.docs.pages import DOCS, PAGES, ROOT, code, fences, rows, table
from tests.docs.pages import commands as shell_commands

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


PAGE = (DOCS / "command-line.md").read_text("utf-8")
OTHER_PROGRAMS = {
    "aider", "cd", "codex", "cp", "curl", "docker", "echo", "journalctl", "llm", "npm", "ollama",
    "open-webui", "opencode", "printf", "python", "python3", "qwen", "sgpt", "sudo", "systemctl",
}  # fmt: skip


def test_the_command_line_page_has_every_command_and_no_other() -> None:
    """Their values and options are what `make docs` writes."""
    found = re.findall(r"^myna((?: [a-z]+(?:-[a-z]+)*)+)", PAGE, re.MULTILINE)
    assert sorted(f"myna{name}" for name in found) == sorted(name for name, _ in commands(build()))


def test_every_command_and_each_of_its_options_is_described_in_its_help() -> None:
    for name, arguments in commands(build()):
        command = build()
        for word in name.split()[1:]:
            command = command[word]
        assert command.help, name
        for argument in arguments:
            assert str(argument.parameter.help or "").endswith((".", "…")), f"{name}: {argument.name}"


def test_help_names_the_section_that_describes_the_command() -> None:
    for section in re.split(r"^## ", PAGE, flags=re.MULTILINE)[1:]:
        slug = section.partition("\n")[0].lower().replace(" ", "-")
        for name in re.findall(r"^myna ([a-z]+)", section, re.MULTILINE):
            assert build([name]).help_epilogue == f"Documentation: docs/command-line.md#{slug}", name


def test_every_command_in_a_shell_block_is_valid() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    app = build()
    typed = [
        found
        for page in PAGES
        for fence in fences(page)
        if fence.language == "sh"
        for found in shell_commands(fence)
    ]
    assert len(typed) > 100
    for command in typed:
        load({**command.env, "MYNA_WORKERS": "1"})  # as many as the machine has cores, and no more
        if command.program == "myna":
            app.parse_args(command.arguments, exit_on_error=False, print_error=False)
        elif command.program == "make":
            assert set(command.arguments) <= targets
        else:
            assert command.program in OTHER_PROGRAMS | {"export"}, command.line

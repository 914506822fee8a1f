"""The house rules that a machine can hold. The limits ratchet: never raised to let code in."""

import ast
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FILE_MAX_LINES = 400
FUNCTION_MAX_LINES = 60
NAMES_THAT_SAY_NOTHING = re.compile(r"(^|_)(utils?|helpers?|common|managers?|base|misc)(_|$)")
LEFT_OVER = re.compile(r"\b(TO" + r"DO|FIX" + r"ME|XX" + r"X)\b")
MACHINE_PATHS = re.compile(r"(?<![\w./])/(work|root|farm(?!/v1)|home)/")
DIALECTS = re.compile(r"\bdialect\s*(==|!=|\bin\b)|isinstance\([^)]*(Sqlite|Postgresql)\b")


def tracked(*endings: str) -> list[Path]:
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, check=True, capture_output=True, text=True,
    ).stdout.split("\n")  # fmt: skip
    return [ROOT / name for name in listed if name.endswith(endings) and (ROOT / name).is_file()]


PYTHON = tracked(".py")
OURS = [path for path in PYTHON if path.is_relative_to(ROOT / "myna")]
TEXTS = tracked(".py", ".md", ".toml", ".sql", ".sh", ".mjs", "Makefile", "run", ".json")


def named(path: Path) -> str:
    return str(path.relative_to(ROOT))


def functions(path: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


@pytest.mark.parametrize("path", PYTHON, ids=named)
def test_a_file_is_short_enough_to_be_read(path: Path) -> None:
    assert path.read_text(encoding="utf-8").count("\n") <= FILE_MAX_LINES


@pytest.mark.parametrize("path", PYTHON, ids=named)
def test_a_function_is_short_enough_to_be_held_in_mind(path: Path) -> None:
    long = [
        node.name for node in functions(path) if (node.end_lineno or 0) - node.lineno > FUNCTION_MAX_LINES
    ]
    assert not long


@pytest.mark.parametrize("path", PYTHON, ids=named)
def test_a_file_has_a_name_that_says_something(path: Path) -> None:
    assert not NAMES_THAT_SAY_NOTHING.search(path.stem)


@pytest.mark.parametrize("path", OURS, ids=named)
def test_no_module_imports_its_own_package_inside_a_function(path: Path) -> None:
    for function in functions(path):
        for node in ast.walk(function):
            if isinstance(node, ast.ImportFrom):
                assert not (node.module or "").startswith("myna"), function.name
            if isinstance(node, ast.Import):
                assert not any(alias.name.startswith("myna") for alias in node.names), function.name


@pytest.mark.parametrize("path", OURS, ids=named)
def test_what_is_public_says_what_it_is(path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    assert ast.get_docstring(tree), "the module"
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            assert ast.get_docstring(node), node.name


@pytest.mark.parametrize("path", OURS, ids=named)
def test_only_one_file_asks_which_database_it_is(path: Path) -> None:
    if path.name != "database.py":
        assert not DIALECTS.search(path.read_text(encoding="utf-8"))


@pytest.mark.parametrize("path", TEXTS, ids=named)
def test_nothing_is_left_over_and_nothing_points_to_one_machine(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert not LEFT_OVER.search(text)
    assert not MACHINE_PATHS.search(text)


@pytest.mark.parametrize("name", ["requirements.lock", "requirements-dev.lock"])
def test_the_lock_has_hashes_and_names_no_registry(name: str) -> None:
    text = (ROOT / name).read_text(encoding="utf-8")
    assert "://" not in text
    pinned = re.findall(r"^[a-z0-9][\w.-]*==", text, re.MULTILINE)
    assert pinned
    for block in re.split(r"\n(?=[a-z0-9])", text):
        assert "--hash=sha256:" in block, block[:60]


def test_nothing_happens_at_import() -> None:
    """Importing the application opens no file of ours, starts no thread and asks for no setting."""
    probe = (
        "import sys, threading, os; os.environ['MYNA_PORT'] = 'wrong'; import myna.app, myna.cli;"
        "myna.cli.build().resolved_commands();"
        "assert threading.active_count() == 1, threading.enumerate();"
        "assert 'wetext' not in sys.modules and 'espeakng_loader' not in sys.modules"
    )
    subprocess.run([sys.executable, "-W", "error", "-c", probe], check=True, cwd=ROOT)


@pytest.mark.parametrize(
    "words", [["serve"], ["account", "list"], ["node", "run"], ["voice", "list"], ["--version"], ["version"]]
)
def test_a_command_imports_no_other_ones_weight(words: list[str], tmp_path: Path) -> None:
    """numpy and libsndfile belong to the children that hear and speak, and to what tries models. With a wrong
    setting each command ends once it is imported."""
    probe = (
        "import sys, myna.cli\n"
        f"try: myna.cli.main({words})\n"
        "except SystemExit: pass\n"
        "else: raise AssertionError('it went on')\n"
        "assert not {'numpy', 'soundfile', 'kaldifst', 'myna.cli.models'} & set(sys.modules)\n"
    )
    env = {**os.environ, "MYNA_PORT": "wrong", "MYNA_DATA": str(tmp_path)}
    subprocess.run([sys.executable, "-c", probe], check=True, cwd=ROOT, env=env)


@pytest.mark.parametrize(("url", "unused"), [("", "asyncpg"), ("postgresql://u@127.0.0.1:1/d", "apsw")])
def test_only_the_driver_of_its_database_is_imported(url: str, unused: str, tmp_path: Path) -> None:
    probe = (
        "import sys, myna.cli\n"
        "try: myna.cli.main(['account', 'add', 'a'])\n"
        "except SystemExit as end: code = end.code\n"
        f"assert (code, {unused!r} in sys.modules) == ({1 if url else 0}, False), code\n"
    )
    env = {**os.environ, "MYNA_DATABASE_URL": url, "MYNA_DATA": str(tmp_path)}
    subprocess.run([sys.executable, "-c", probe], check=True, cwd=ROOT, env=env)

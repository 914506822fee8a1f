"""The project's rules that a program can check. The limits ratchet: they are never raised."""

import ast
import os
import re
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
LOCKS = (
    "requirements.lock", "requirements-extras.lock", "requirements-demo.lock", "requirements-dev.lock",
    "requirements-listen.lock", "requirements-mutants.lock",
)  # fmt: skip
FILE_MAX_LINES = 400
FUNCTION_MAX_LINES = 60
NAMES_THAT_SAY_NOTHING = re.compile(r"(^|_)(utils?|helpers?|common|managers?|base|misc)(_|$)")
LEFT_OVER = re.compile(r"\b(TO" + r"DO|FIX" + r"ME|XX" + r"X)\b")
MACHINE_PATHS = re.compile(r"(?<![\w./])/(work|root|farm(?!/v1)|home)/")
OTHER_PROCESSES = re.compile(r"/proc/\{")
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


@cache
def source(path: Path) -> str:
    return path.read_text(encoding="utf-8")


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(source(path))


def functions(path: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def offenders(paths: Sequence[Path], fault: Callable[[Path], object]) -> dict[str, object]:
    """Each file in which `fault` finds something, with its findings."""
    found = {str(path.relative_to(ROOT)): fault(path) for path in paths}
    return {name: what for name, what in found.items() if what}


def test_no_file_is_too_long() -> None:
    assert not offenders(PYTHON, lambda path: max(0, len(source(path).splitlines()) - FILE_MAX_LINES))


def test_no_function_is_too_long() -> None:
    def too_long(path: Path) -> list[str]:
        return [
            node.name for node in functions(path) if (node.end_lineno or 0) - node.lineno > FUNCTION_MAX_LINES
        ]

    assert not offenders(PYTHON, too_long)


def test_no_file_has_a_vague_name() -> None:
    assert not offenders(PYTHON, lambda path: NAMES_THAT_SAY_NOTHING.search(path.stem))


def test_no_module_imports_its_own_package_inside_a_function() -> None:
    assert not offenders(OURS, lambda path: [f.name for f in functions(path) if imports_ours(f)])


def imports_ours(function: ast.AST) -> bool:
    names: list[str] = []
    for node in ast.walk(function):
        if isinstance(node, ast.ImportFrom):
            names.append(node.module or "")
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
    return any(name.split(".")[0] == "myna" for name in names)


def test_public_definitions_have_docstrings() -> None:
    def silent(path: Path) -> list[str]:
        module = tree(path)
        classes = [node for node in module.body if isinstance(node, ast.ClassDef)]
        public = [node for node in classes if not node.name.startswith("_")]
        return ["the module"] * (not ast.get_docstring(module)) + [
            node.name for node in public if not ast.get_docstring(node)
        ]

    assert not offenders(OURS, silent)


def test_only_one_file_checks_the_dialect() -> None:
    others = [path for path in OURS if path.name != "database.py"]
    assert not offenders(others, lambda path: DIALECTS.search(source(path)))


def test_no_leftover_markers_and_no_paths_of_a_machine() -> None:
    assert not offenders(TEXTS, lambda path: LEFT_OVER.findall(source(path)))
    assert not offenders(TEXTS, lambda path: MACHINE_PATHS.findall(source(path)))


READS_PROC = {"tests/rig/processes.py", "bench/processes.py"}
"""A process may end between two reads of /proc; these files expect it."""


def test_other_processes_are_inspected_in_listed_files_only() -> None:
    readers = offenders(PYTHON, lambda path: OTHER_PROCESSES.search(source(path)))
    assert readers.keys() <= READS_PROC


@pytest.mark.parametrize("name", LOCKS)
def test_the_lock_has_hashes_and_names_no_registry(name: str) -> None:
    text = (ROOT / name).read_text(encoding="utf-8")
    assert "://" not in text
    pinned = re.findall(r"^[a-z0-9][\w.-]*==", text, re.MULTILINE)
    assert pinned
    for block in re.split(r"\n(?=[a-z0-9])", text):
        assert "--hash=sha256:" in block, block[:60]


def test_one_package_has_one_version_in_all_locks() -> None:
    pinned = [set(re.findall(r"^([a-z0-9][\w.-]*==\S+)", (ROOT / name).read_text(), re.M)) for name in LOCKS]
    run, *more, mutants = pinned
    also_in_dev = {line.split("==")[0] for line in more[-1]}
    assert {line for line in mutants if line.split("==")[0] in also_in_dev} <= more[-1]
    assert all(run <= lock for lock in more)
    assert {line.split("==")[0] for line in more[0] - run} == {
        "av", "certifi", "charset-normalizer", "colorama", "cryptography", "ctranslate2",
        "faster-whisper", "fsspec", "googleapis-common-protos", "hf-xet", "httpcore2", "httpx2",
        "httpx2-jsfetch", "huggingface-hub", "joserfc", "obstore", "opencc", "opentelemetry-api",
        "opentelemetry-exporter-http-transport", "opentelemetry-exporter-otlp-common",
        "opentelemetry-exporter-otlp-proto-common", "opentelemetry-exporter-otlp-proto-http",
        "opentelemetry-proto", "opentelemetry-sdk", "opentelemetry-semantic-conventions", "pyyaml",
        "requests", "sherpa-onnx", "sherpa-onnx-core", "tokenizers", "tqdm", "truststore", "urllib3",
    }  # fmt: skip
    assert not {line for line in run if line.startswith(("openai==", "pytest==", "httpx"))}


def test_the_wheel_contains_only_the_service(tmp_path: Path) -> None:
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = tmp_path.iterdir()
    with zipfile.ZipFile(wheel) as archive:
        top = {name.split("/")[0] for name in archive.namelist()}
    assert {name for name in top if not name.endswith(".dist-info")} == {"myna"}


def test_nothing_happens_at_import() -> None:
    """Importing the application opens no data file, starts no thread and reads no setting."""
    probe = (
        "import sys, threading, os; os.environ['MYNA_PORT'] = 'wrong'; import myna.server.app, myna.cli;"
        "myna.cli.build().resolved_commands();"
        "assert threading.active_count() == 1, threading.enumerate();"
        "assert 'rjieba' not in sys.modules and 'espeakng_loader' not in sys.modules"
    )
    subprocess.run([sys.executable, "-W", "error", "-c", probe], check=True, cwd=ROOT)


@pytest.mark.parametrize(
    "words", [["serve"], ["account", "list"], ["node", "run"], ["voice", "list"], ["--version"], ["version"]]
)
def test_a_command_imports_no_heavy_modules_of_other_commands(words: list[str], tmp_path: Path) -> None:
    """Only speaking and inspecting processes and the test of models need numpy and libsndfile. With a wrong
    setting each command ends after its import."""
    probe = (
        "import sys, myna.cli\n"
        f"try: myna.cli.main({words})\n"
        "except SystemExit: pass\n"
        "else: raise AssertionError('it went on')\n"
        "assert not {'numpy', 'soundfile', 'rjieba', 'myna.cli.models'} & set(sys.modules)\n"
    )
    env = {**os.environ, "MYNA_PORT": "wrong", "MYNA_DATA": str(tmp_path)}
    subprocess.run([sys.executable, "-c", probe], check=True, cwd=ROOT, env=env)


@pytest.mark.parametrize(("url", "unused"), [("", "asyncpg"), ("postgresql://u@127.0.0.1:1/d", "apsw")])
def test_only_the_driver_of_its_database_is_imported(url: str, unused: str, tmp_path: Path) -> None:
    probe = (
        "import sys, myna.cli\n"
        "try: myna.cli.main(['migrate'])\n"
        "except SystemExit as end: code = end.code\n"
        f"assert (code, {unused!r} in sys.modules) == ({1 if url else 0}, False), code\n"
    )
    env = {**os.environ, "MYNA_DATABASE_URL": url, "MYNA_DATA": str(tmp_path)}
    subprocess.run([sys.executable, "-c", probe], check=True, cwd=ROOT, env=env)

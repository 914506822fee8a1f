"""Runs the tests near to what changed since `main`, committed or not: `make quick`.

They are the changed tests, those that import what changed, themselves or through up to DEPTH - 1 modules
(0: any number), and those of the same subject in the folder that tests its layer over HTTP. A file that is no
Python has the tests of its package's folder.
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

import grimp

HTTP = {
    "myna/api/farm.py": "tests/farm",
    "myna/api/openai.py": "tests/openai_audio",
    "myna/api": "tests/conformance",
}
DEPTH = int(os.environ.get("DEPTH", "2"))


def main() -> int:
    graph = grimp.build_graph("myna", "tests", cache_dir=".import_linter_cache")
    for name in [name for name in graph.modules if name.endswith(".conftest")]:
        for test in graph.find_descendants(name.rpartition(".")[0]) - {name}:
            graph.add_import(importer=test, imported=name)
    chosen: dict[str, str] = {}
    for path in sorted(changed(), key=lambda path: path.suffix != ".py"):
        for test, why in tests_of(graph, path):
            chosen.setdefault(test, why)
    for test, why in sorted(chosen.items()):
        sys.stdout.write(f"{test}: {why}\n")
    sys.stdout.write(f"{len(chosen)} test files\n")
    sys.stdout.flush()
    pytest = [sys.executable, "-m", "pytest", "-n", "2", "-m", "not slow and not release", *sys.argv[1:]]
    return subprocess.run([*pytest, *sorted(chosen)], check=False).returncode if chosen else 0


def changed() -> set[PurePosixPath]:
    def git(*words: str) -> list[str]:
        return subprocess.run(["git", *words], check=True, capture_output=True, text=True).stdout.split("\n")

    (base, *_) = git("merge-base", "main", "HEAD")
    names = git("diff", "--name-only", base) + git("ls-files", "--others", "--exclude-standard")
    return {PurePosixPath(name) for name in names if name}


def tests_of(graph: grimp.ImportGraph, path: PurePosixPath) -> Iterator[tuple[str, str]]:
    """The test files for a changed file, and why."""
    module = ".".join(path.with_suffix("").parts).removesuffix(".__init__")
    if is_test(path) and Path(path).exists():
        yield str(path), "changed"
    elif path.suffix == ".py" and module in graph.modules:
        found, near = {module}, {module}
        for step in range(DEPTH or len(graph.modules)):
            near = set().union(*map(graph.find_modules_that_directly_import, near)) - found
            found |= near
            for test in near:
                file = PurePosixPath(test.replace(".", "/") + ".py")
                if is_test(file):
                    yield str(file), f"imports {module}" + f", {step} between" * (step > 0)
    folder = next((tests for part, tests in HTTP.items() if path.is_relative_to(part)), None)
    folder = folder or f"tests/{path.parts[path.parts[0] in ('myna', 'tests')].removesuffix('.py')}"
    if Path(folder).is_dir() and not is_test(path) and folder != "tests/rig":
        files = sorted(PurePosixPath(file) for file in Path(folder).rglob("test_*.py"))
        word = path.stem.split("_")[0]
        named = [file for file in files if any(part.startswith(word) for part in file.stem.split("_"))]
        for file in named or (files if path.suffix != ".py" else []):
            yield str(file), f"of {path}"


def is_test(path: PurePosixPath) -> bool:
    return path.parts[0] == "tests" and path.suffix == ".py" and path.name.startswith("test_")


if __name__ == "__main__":
    sys.exit(main())

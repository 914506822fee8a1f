"""Every English sentence that an error of the back office may show, as the code raises it."""

import ast
import importlib
import inspect
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import myna
from myna import errors
from myna.accounts import limits, throttle
from myna.errors.sentences import SentenceError
from myna.office import messages
from myna.speech import synthesize
from myna.wire import failures as channel_failures

PACKAGE = Path(myna.__file__).parent
OFFICE = Path(messages.__file__).parents[1]
APART = {
    "myna.store.migrate",
    "myna.store.backup",
    "myna.store.archive",
    "myna.settings",
    "myna.wire.validation_errors",
}
"""They raise before there is a page; the last one's sentences are translated by patterns."""
PHRASES_OF = ("_check_line", "_check_range", "_check_whole")
"""Functions whose first argument is the phrase `what` of a sentence."""


def classes() -> set[type[SentenceError]]:
    """All classes of errors."""
    found: set[type[SentenceError]] = set()
    waiting: list[type[SentenceError]] = [SentenceError]
    while waiting:
        for kind in waiting.pop().__subclasses__():
            if kind not in found and kind.__module__.startswith("myna."):
                found.add(kind)
                waiting.append(kind)
    return found


def sentences() -> set[str]:
    """The sentences of all errors that the modules below the pages raise."""
    modules = _modules()  # imports them, and so their classes
    names = {kind.__name__ for kind in classes()}
    found = set(limits.SENTENCES.values()) | set(synthesize.SENTENCES.values())
    found |= {meaning.sentence for meaning in channel_failures.MEANINGS}
    found |= {default for kind in classes() if isinstance(default := _default(kind), str)}
    for module in modules:
        for call in _calls(module):
            name = _name(call.func)
            if name in names or (name == "__init__" and module in (errors, throttle)):
                found |= {_field(call, name) + text for text in _texts(call.args[0], module)}
            elif name in PHRASES_OF and isinstance(call.args[0], ast.Constant):
                found.add(str(call.args[0].value))
    return found


def _field(call: ast.Call, name: str) -> str:
    """What an InvalidRequest has before its sentence: the field."""
    given = next((one.value for one in call.keywords if one.arg == "field"), None)
    known = isinstance(given, ast.Constant) and name in ("InvalidRequest", "__init__")
    return f"{given.value}: " if known and isinstance(given, ast.Constant) else ""


def _default(kind: type[SentenceError]) -> object:
    """The sentence of a class that may be raised without one."""
    parameter = inspect.signature(kind).parameters.get("sentence")
    return parameter.default if parameter else None


def _calls(module: ModuleType) -> Iterator[ast.Call]:
    for node in ast.walk(ast.parse(inspect.getsource(module))):
        if isinstance(node, ast.Call) and node.args:
            yield node


def _texts(argument: ast.expr, module: ModuleType) -> Iterator[str]:
    """The texts that an argument may be: a constant, the name of one, or a choice of them."""
    match argument:
        case ast.Constant(value=str(text)):
            yield text
        case ast.Name(id=name) if isinstance(text := getattr(module, name, None), str):
            yield text
        case ast.Attribute(value=ast.Name(id=owner), attr=name) if isinstance(
            text := getattr(getattr(module, owner, None), name, None), str
        ):
            yield text
        case ast.IfExp(body=one, orelse=other):
            yield from _texts(one, module)
            yield from _texts(other, module)
        case ast.JoinedStr():
            raise AssertionError(
                f"{module.__name__}:{argument.lineno}: give the values apart, not as an f-string"
            )


def _modules() -> list[ModuleType]:
    """The modules of the office, those that it imports, and those of errors and of signing in."""
    paths = [*OFFICE.rglob("*.py"), *(PACKAGE / "actions").glob("*.py")]
    names = {_dotted(path) for path in [*paths, *(PACKAGE / "sign_in").glob("*.py")]}
    names |= {"myna.errors", "myna.lib.names", "myna.wire.failures", "myna.wire.openai"}
    names |= {"myna.accounts.caps", "myna.accounts.throttle", "myna.billing.quota"}
    names |= {"myna.billing.refused_charges", "myna.store.sqlite_reports"}
    for path in paths:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("myna"):
                names |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
    files = {_dotted(path) for path in PACKAGE.rglob("*.py")}
    return [importlib.import_module(name) for name in sorted(names & files - APART)]


def _dotted(path: Path) -> str:
    return ".".join(("myna", *path.relative_to(PACKAGE).with_suffix("").parts)).removesuffix(".__init__")


def _name(function: ast.expr) -> str:
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")

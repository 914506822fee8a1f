"""Every text of the pages has a translation, and every translation a text."""

import ast
import importlib
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from pkgutil import walk_packages
from types import ModuleType

import jinja2

from myna import config, errors
from myna.accounts import limits, throttle
from myna.accounts.sign_in.oidc.provider import Failure
from myna.actions import actions, fields_of
from myna.engines.models.published import MODELS
from myna.errors import sentences
from myna.errors.sentences import SentenceError
from myna.office import pages, render
from myna.office.forms import label_of
from myna.office.render import LANGUAGES, Renderer
from myna.speech import synthesize
from myna.store.queries import audit
from myna.wire import failures as channel_failures
from tests.office.conftest import PATHS, MakeSite
from tests.rig.office import People

OFFICE = Path(render.__file__).parent
PACKAGE = OFFICE.parent
APART = {
    "myna.store.migrate",
    "myna.store.backup",
    "myna.store.archive",
    "myna.settings",
    "myna.wire.body",
    "myna.wire.validation_errors",
}
"""They raise before there is a page, or for JSON, which no page sends. The sentences of the last one are
translated by patterns."""
OF_NODES = {errors.NodeRefused, errors.NodeTooOld, errors.StaleLease}
"""What compute nodes alone are told."""
PHRASES_OF = ("_check_line",)
"""Functions whose first argument is the phrase `what` of a sentence."""


def error_classes() -> set[type[SentenceError]]:
    """All classes of errors that a page may show."""
    found: set[type[SentenceError]] = set()
    waiting: list[type[SentenceError]] = [SentenceError]
    while waiting:
        for kind in waiting.pop().__subclasses__():
            if kind not in found | OF_NODES and kind.__module__.startswith("myna."):
                found.add(kind)
                waiting.append(kind)
    return found


def error_sentences() -> set[str]:
    """The sentences of all errors that the modules below the pages raise."""
    modules = _modules()  # imports them, and so their classes
    names = {kind.__name__ for kind in error_classes()}
    found = set(limits.SENTENCES.values()) | set(synthesize.SENTENCES.values())
    found |= {failure.value for failure in Failure}
    found |= {meaning.sentence for meaning in channel_failures.MEANINGS}
    found |= {kind.default for kind in error_classes() if issubclass(kind, errors.MynaError) and kind.default}
    found |= {throttle.WRONG, errors.sentences.REPORT_SLOW}
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
    """The modules of the office and of actions, those that they import, and those of errors."""
    paths = [*OFFICE.rglob("*.py"), *(PACKAGE / "actions").glob("*.py")]
    names = {_dotted(path) for path in paths}
    names |= {"myna.errors", "myna.lib.names", "myna.wire.failures", "myna.wire.openai"}
    names |= {"myna.accounts.caps", "myna.accounts.throttle", "myna.billing.quota"}
    names.add("myna.billing.refused_charges")
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


TEMPLATES = sorted((OFFICE / "templates").rglob("*.html"))


def used() -> set[str]:
    """The texts of all templates and pages, the sentences of errors, the rules of the audit, and why chat or
    speech is unavailable."""
    environment = jinja2.Environment(extensions=["jinja2.ext.i18n"], trim_blocks=True, lstrip_blocks=True)  # noqa: S701  it renders nothing
    texts: set[str] = set()
    for path in TEMPLATES:
        for _, _, found in environment.extract_translations(path.read_text(encoding="utf-8")):  # type: ignore[attr-defined]  # added by the extension
            text = found[1] if isinstance(found, tuple) else found  # Chinese has the plural alone
            texts |= {text} if text else set()
    for path in OFFICE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and (name := _name(node.func)) in ("text", "N_", "redirect"):
                given = node.args[1:] if name == "redirect" else node.args
                texts |= {arg.value for arg in given if isinstance(arg, ast.Constant)}
    texts |= {setting.kind.requirement for setting in config.SETTINGS.values()}
    for about in (about for kind in actions() for about in fields_of(kind).values()):
        texts |= {text for text in (about.label, about.note) if text}
    return texts | error_sentences() | set(audit.RULES) | set(sentences.UNAVAILABLE)


def test_every_text_is_translated() -> None:
    translated, texts = set(LANGUAGES["zh"]), used()
    assert sorted(texts - translated) == []
    assert sorted(translated - texts) == []


def test_no_text_but_those_of_ours_is_taken_as_html() -> None:
    """`_` returns HTML, and reads `%` as a placeholder. A value, such as the name of a database, goes through
    the filter `translated`, which returns text."""
    environment = jinja2.Environment(extensions=["jinja2.ext.i18n"])  # noqa: S701  it renders nothing
    for path in TEMPLATES:
        for call in environment.parse(path.read_text(encoding="utf-8")).find_all(jinja2.nodes.Call):
            if isinstance(call.node, jinja2.nodes.Name) and call.node.name == "_":
                assert isinstance(call.args[0], jinja2.nodes.Const), f"{path.name}:{call.lineno}"


NOT_TYPED = {
    "again", "answer", "any_channel", "error", "first_ms", "once", "operator", "remove", "said", "statement",
    "stopped", "stored", "sure", "untested", "waited_ms",
}  # fmt: skip
"""Fields that the pages fill in themselves."""


def test_every_field_that_is_typed_has_a_translated_label() -> None:
    found = walk_packages(pages.__path__, f"{pages.__name__}.")
    modules = [importlib.import_module(one.name) for one in found]
    kinds = [
        getattr(module, call.args[0].id)
        for module in modules
        for call in _calls(module)
        if _name(call.func) in ("fields", "performs") and isinstance(call.args[0], ast.Name)
    ]
    names = {name for kind in kinds for name in kind.__struct_fields__} - NOT_TYPED
    assert "voice_id" in names
    assert {label_of(name) for name in names} <= set(LANGUAGES["zh"])


def test_a_translation_has_the_placeholders_of_its_text() -> None:
    placeholders = re.compile(r"%\((\w+)\)s|\{(\w+)(?:!r|:g)?\}")
    for text, translated in LANGUAGES["zh"].items():
        assert set(placeholders.findall(text)) == set(placeholders.findall(translated)), text


PLACE = re.compile(r"\{(\w+)[^}]*\}")


def test_a_sentence_that_is_stored_in_english_is_said_in_chinese() -> None:
    renderer = Renderer("zh")
    for text, translated in LANGUAGES["zh"].items():
        if "%(" not in text and len(PLACE.sub("", text)) > 8:
            stored, said = (PLACE.sub(r"a[\1].", each) for each in (text, translated))
            assert renderer.stored(stored) == said
    assert renderer.stored("127.0.0.1:9 can't be reached: refused.") == "无法连接 127.0.0.1:9：refused。"
    assert renderer.stored("myna account reset ann # a new password was set").endswith("ann # 设置了新密码")
    for refusal, said in [
        ("messages: is missing.", "缺少 messages。"),
        ("n: must be an integer from 1 to 9.", "n 须为整数，1 到 9。"),
        ("input: must be a string or an array, not null.", "input 须为字符串或数组，而不是null。"),
        ('messages[0].role: must be "user" or "tool".', 'messages[0].role 须为"user"或"tool"。'),
    ]:
        assert renderer.stored(refusal) == said


def test_words_of_models_are_translated() -> None:
    translated = set(LANGUAGES["zh"])
    words = {model.licence for model in MODELS.values()}
    words |= {language for model in MODELS.values() for language in model.languages}
    assert {word for word in words if " " in word} <= translated


def test_the_site_says_its_words_in_chinese(people: People) -> None:
    operator = people.signed_in("operator-in-chinese", operator=True)
    operator.headers["accept-language"] = "zh"
    shown = operator.page("/site/settings")
    assert "默认" in shown and " default " not in shown and "每个进程" in shown and "seconds" not in shown
    voices = operator.page("/site/voices")
    assert "渠道 espeak" in voices and "女声" in voices
    assert " female " not in voices and " channel " not in voices
    models = operator.page("/site/models")
    assert "转换为 ONNX 的部分：MIT" in models and "and others" not in models


CODE = re.compile(
    r'(?s)<(script|style|pre|code|svg|datalist)\b.*?</\1>|<(\w+)[^>]*class="[^"]*mono[^>]*>.*?</\2>'
)
"""What is no sentence: code, names that programs use, drawings."""
ENGLISH = re.compile(r"[a-z]{3,} [a-z]{3,}")


def test_no_page_in_chinese_has_english_words(make_site: MakeSite) -> None:
    site = make_site(chat_url="parrot:", speech="espeak")
    operator = People(site).signed_in("operator-of-chinese", operator=True)
    operator.headers["accept-language"] = "zh"
    operator.submit("/keys/new", name="laptop", scope=["chat", "tts"], cap_units="100", cap_period="week")
    operator.post("/try", text="你好")
    operator.post("/try/speech", text="你好")
    operator.result("/site/codes", units="25", count="2", uses="1")
    refused = [
        operator.post("/site/settings", name=name, value="x y") for name in ("tts_max_chars", "time_zone")
    ]
    of_one = ("/keys/1", "/site/accounts/1", "/site/calls?q=operator-of-chinese")
    answers = [(path, operator.get(path)) for path in (*PATHS, *of_one)]
    assert {answer.status for _, answer in answers} == {200}
    assert [answer.status for answer in refused] == [400, 400]
    found: set[str] = set()
    for path, answer in [*answers, *(("refused", answer) for answer in refused)]:
        text = re.sub(r"<[^>]+>", "\n", CODE.sub(" ", answer.body.decode()))
        found |= {f"{path}: {line.strip()}" for line in text.splitlines() if ENGLISH.search(line)}
    assert not found, "\n".join(sorted(found))

"""Turns templates into HTML: one environment for each language.

Autoescape is on, and an undefined variable is an error. Templates are in English; `messages/zh/` has Chinese
by the English text: for pages, for those of operators, and for errors. A test fails for a text that is
missing or unused.
"""

import hashlib
import re
import shlex
import time
import tomllib
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, tzinfo
from functools import cached_property
from pathlib import Path

import jinja2
from markupsafe import Markup, escape

from myna.engines.voices import spoken_language
from myna.errors.sentences import SentenceError

_FOLDER = Path(__file__).parent


def N_(text: str) -> str:
    """Marks a text that a page looks up by a variable; returns it unchanged."""
    return text


def _messages(language: str) -> dict[str, str]:
    """All messages of a language, by the English text."""
    found: dict[str, str] = {}
    for path in sorted((_FOLDER / "messages" / language).glob("*.toml")):
        found |= tomllib.loads(path.read_text(encoding="utf-8"))
    return found


STATIC = {path.name: path.read_bytes() for path in sorted((_FOLDER / "static").iterdir()) if path.is_file()}
"""The files of /office/static, by name."""
STATIC_VERSION = hashlib.sha256(b"".join(STATIC.values())).hexdigest()[:12]
LANGUAGES: Mapping[str, Mapping[str, str]] = {"en": {}, "zh": _messages("zh")}
SPOKEN = {
    "zh": N_("Mandarin"),
    "yue": N_("Cantonese"),
    "en": N_("English"),
    "ja": N_("Japanese"),
    "ko": N_("Korean"),
    "de": N_("German"),
    "fr": N_("French"),
    "es": N_("Spanish"),
    "pt": N_("Portuguese"),
    "it": N_("Italian"),
    "hi": N_("Hindi"),
    "ru": N_("Russian"),
}
"""Names of languages; others are shown by their codes."""
_UNITS = (
    (86_400_000, "day", N_("days")),
    (3_600_000, "hour", N_("hours")),
    (60_000, "minute", N_("minutes")),
    (1000, "second", N_("seconds")),
)
_BROWSERS = (
    ("Edg", "Edge"), ("OPR/", "Opera"), ("SamsungBrowser", "Samsung Internet"), ("MicroMessenger", "微信"),
    ("Firefox", "Firefox"), ("FxiOS", "Firefox"), ("Chrom", "Chrome"), ("CriOS", "Chrome"),
    ("Safari", "Safari"), ("curl", "curl"),
)  # fmt: skip
_SYSTEMS = (
    ("Android", "Android"), ("iPhone", "iPhone"), ("iPad", "iPad"), ("Windows", "Windows"),
    ("Mac OS X", "macOS"), ("CrOS", "ChromeOS"), ("Linux", "Linux"),
)  # fmt: skip
"""Marks of a User-Agent header, in the order in which they decide: most browsers name others too."""
PHRASES = ("what", "period", "failure")
"""Values of sentences that are words of ours, where they are translated."""
FIELD_SENTENCES = (
    N_("{field}: is missing."), N_("{field}: is missing; send {wanted}."), N_("{field}: must be {wanted}."),
    N_("{field}: must be {wanted}, not {given}."),
    N_("{field}: must be {wanted}, not {given}; send {value}."),
)  # fmt: skip
"""Refusals of a field of a request, as `validation_errors` words them."""
_WORDS = (
    N_("a string"), N_("an integer"), N_("a number"), N_("true or false"), N_("an array"), N_("an object"),
    N_("such a number"), N_(" or "), N_(" from "), N_(" to "),
)  # fmt: skip
"""In what a field must be, and what it is."""
_WORD = re.compile("|".join(_WORDS))
CAP_PERIODS = (N_("day"), N_("week"), N_("month"))
_PLACE = re.compile(r"\{(\w+)[^}]*\}")
_SENTENCE_MIN_CHARS = 7
"""A stored text is compared with sentences of values that have at least so many characters besides."""
_LONG = N_("{minutes} min {seconds} s")
_PAST = N_("{count} {unit} ago")
_FUTURE = N_("in {count} {unit}")


class Renderer:
    """The templates in one language."""

    def __init__(self, language: str) -> None:
        self.language = language
        self._messages = LANGUAGES[language]
        self._environment = jinja2.Environment(
            loader=jinja2.FileSystemLoader(_FOLDER / "templates"),
            autoescape=True,
            undefined=jinja2.StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
            auto_reload=False,
            extensions=["jinja2.ext.i18n"],
        )
        self._environment.install_gettext_callables(self.text, self.plural, newstyle=True)  # type: ignore[attr-defined]  # added by the extension
        self._environment.globals.update(
            language=language,
            static=_static,
            shell=shlex.join,
            icon=_icon,
            now_ms=lambda: time.time_ns() // 10**6,
        )
        self._environment.filters.update(number=number, date=date, size=size, duration=self.duration)
        self._environment.filters.update(
            ago=self._ago, browser=browser, translated=self.text, stored=self.stored
        )
        self._environment.filters.update(language=self.language_name, listed=self.listed)

    def text(self, message: str) -> str:
        """The message in this language."""
        return self._messages.get(message, message)

    def plural(self, one: str, many: str, count: int) -> str:
        """The message for this number. Chinese has one for all numbers, under the plural."""
        return one if abs(count) == 1 and self.language == "en" else self.text(many)

    def language_name(self, code: str) -> str:
        """The name of a language like zh or zh-CN. Except for Chinese, it has the region with it."""
        language, region = spoken_language(code), code.partition("-")[2]
        name = self.text(SPOKEN.get(language, language))
        return f"{name} ({region})" if region and language not in ("zh", "yue") else name

    def duration(self, ms: float) -> str:
        """A duration, as `212 ms`, `3.4 s` or `2 min 5 s`."""
        if ms < 60_000:
            return duration(ms)
        minutes, seconds = divmod(round(ms / 1000), 60)
        return self.text(_LONG).format(minutes=minutes, seconds=seconds)

    def listed(self, texts: Iterable[str]) -> str:
        """Several names as this language lists them."""
        return self.text(", ").replace("，", "、").join(texts)

    def said(self, error: SentenceError) -> str:
        """The sentence of an error in this language, with the errors and the phrase among its values."""
        sentence = self.text(error.sentence)
        values = {name: self._said_value(name, value) for name, value in error.values.items()}
        return sentence.format(**values) if values else sentence

    def _said_value(self, name: str, value: object) -> object:
        if isinstance(value, SentenceError):
            return self.said(value)
        if not isinstance(value, str):
            return value
        if name == "renews_at":
            return value[:16].replace("T", " ")
        if name in ("wanted", "given"):
            return _WORD.sub(lambda word: self.text(word[0]), value)
        return self.text(value) if name in PHRASES else value

    def stored(self, text: str) -> str:
        """A sentence of the service that was stored in English, in this language; another text as it is. It
        may be the note behind a command."""
        command, mark, note = text.rpartition(" # ")
        if mark and note in self._messages:
            return command + mark + self.text(note)
        for pattern, translated in () if text in self._messages else self._sentences:
            if match := pattern.fullmatch(text):
                values = {name: self._said_value(name, value) for name, value in match.groupdict().items()}
                return _PLACE.sub(lambda place: str(values[place[1]]), translated)  # noqa: B023  called at once
        return self.text(text)

    @cached_property
    def _sentences(self) -> list[tuple[re.Pattern[str], str]]:
        """The sentences with values, those with the most words of their own first."""
        found = [one for one in self._messages.items() if _PLACE.search(one[0]) and "%(" not in one[0]]
        found.sort(key=lambda one: -len(_PLACE.sub("", one[0])))
        return [
            (_pattern_of(sentence), translated)
            for sentence, translated in found
            if len(_PLACE.sub("", sentence)) >= _SENTENCE_MIN_CHARS
        ]

    def page(self, template: str, context: Mapping[str, object], block: str = "") -> str:
        """The HTML of a template, or of one block of it. Every template has the macros of macros.html."""
        macros = vars(self._environment.get_template("macros.html").make_module(dict(context)))
        found = self._environment.get_template(template)
        values = {**macros, **context}
        return "".join(found.blocks[block](found.new_context(values))) if block else found.render(values)

    @jinja2.pass_context
    def _ago(self, context: jinja2.runtime.Context, at_ms: int, never: str = "") -> Markup:
        """A time as `<time>`: how long ago, with the time in the site's zone as its title; `never` for 0."""
        if not at_ms:
            return escape(never or self.text("never"))
        zone = context["zone"]
        moment = datetime.fromtimestamp(at_ms / 1000, UTC).astimezone(zone)
        return Markup('<time datetime="{}" title="{}">{}</time>').format(
            moment.isoformat(timespec="seconds"), date(at_ms, zone, seconds=True), self.relative(at_ms)
        )

    def relative(self, at_ms: int) -> str:
        """How long ago a time is, or in how long."""
        distance_ms = time.time_ns() // 10**6 - at_ms
        # A time to come is rounded: what ends in a week does so, a moment later, in 7 days.
        half = 1 if distance_ms < 0 else 0
        for size_ms, one, many in _UNITS:
            if count := (abs(distance_ms) + half * size_ms // 2) // size_ms:
                unit = self.plural(one, many, count)
                return self.text(_PAST if distance_ms >= 0 else _FUTURE).format(count=count, unit=unit)
        return self.text("just now")


def renderers() -> dict[str, Renderer]:
    """One renderer for each language."""
    return {language: Renderer(language) for language in LANGUAGES}


def preferred(accept_language: str) -> str:
    """The best of our languages for an Accept-Language header; English without one."""
    ranked: list[tuple[float, str]] = []
    for part in accept_language[:200].split(","):
        tag, _, quality = part.strip().partition(";q=")
        language = tag.split("-")[0].lower()
        if language in LANGUAGES:
            ranked.append((_quality(quality), language))
    return max(ranked, key=lambda item: item[0], default=(0.0, "en"))[1]


def _quality(text: str) -> float:
    try:
        return float(text) if text else 1.0
    except ValueError:
        return 0.0


def number(value: float) -> str:
    """A number with separators of thousands."""
    return f"{value:,}"


def date(at_ms: int, zone: tzinfo, *, seconds: bool = False) -> str:
    """A time in the zone, as `2026-11-23 18:05`."""
    moment = datetime.fromtimestamp(at_ms / 1000, UTC).astimezone(zone)
    return moment.strftime("%Y-%m-%d %H:%M:%S %Z" if seconds else "%Y-%m-%d %H:%M")


def browser(user_agent: str) -> str:
    """The browser and the system of a User-Agent header, as `Firefox · Linux`; unknown ones as they are."""
    name = next((name for mark, name in _BROWSERS if mark in user_agent), "")
    system = next((name for mark, name in _SYSTEMS if mark in user_agent), "")
    return " · ".join(filter(None, (name, system))) or user_agent[:60]


def size(size_bytes: float) -> str:
    """A size in bytes with a binary unit."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size_bytes < 1024 or unit == "GiB":
            break
        size_bytes /= 1024
    return f"{size_bytes:.0f} {unit}" if unit == "B" or size_bytes >= 100 else f"{size_bytes:.1f} {unit}"


def duration(ms: float) -> str:
    """A duration by its symbols, as `212 ms` or `3.4 s`."""
    return f"{ms:.0f} ms" if ms < 1000 else f"{ms / 1000:.1f} s"


def _static(name: str) -> str:
    if name not in STATIC:
        raise KeyError(name)
    return f"/office/static/{name}?v={STATIC_VERSION}"


def _icon(name: str) -> Markup:
    """An icon of icons.svg, hidden from readers: the text beside it says the same."""
    return Markup('<svg class="icon" aria-hidden="true"><use href="{}#{}"/></svg>').format(
        _static("icons.svg"), name
    )


def _pattern_of(sentence: str) -> re.Pattern[str]:
    """What the sentence is with any values, which are groups by their names."""
    parts = _PLACE.split(sentence)  # text and names, in turns
    seen: set[str] = set()
    pattern = re.escape(parts[0])
    for name, text in zip(parts[1::2], parts[2::2], strict=True):
        pattern += (f"(?P={name})" if name in seen else f"(?P<{name}>.+?)") + re.escape(text)
        seen.add(name)
    return re.compile(pattern, re.DOTALL)

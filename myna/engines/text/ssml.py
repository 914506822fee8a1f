"""A subset of SSML in the notation that voices read: `<break>`, `<sub>`, `<say-as>`, `<phoneme>`, `<lang>`.

Within `<speak>` all other markup is removed and named. In a text that does not begin with `<speak>` the five
elements alone are markup: what else is in angle brackets may be mathematics or a program. Nothing is loaded,
and no entity is defined: besides the five of XML and numbers of characters an entity is removed and named.
"""

import html
import re
from collections import Counter
from collections.abc import Mapping
from typing import Final

import regex
from msgspec import Struct

from myna.engines.text.notation import AS, BREAK_MAX_MS, TEXT_MAX_CHARS, flat, kind_of

_VALUE: Final = r"(?:\"[^\"<>]{0,1000}\"|'[^'<>]{0,1000}'|[\w.%+-]{1,40})"
"""Of an attribute; programs, and models, leave the quotes out, as in HTML."""
_ATTRIBUTES: Final = rf"(?:\s+[\w.:-]{{1,40}}\s*=\s*{_VALUE})*"
_DOCTYPE: Final = r"<!DOCTYPE[^<>\[\]]{0,500}(?:\[[^\]]{0,2000}\]\s*)?>"
_MARKUP: Final = re.compile(
    rf"<(?P<close>/?)(?P<name>[A-Za-z][\w.:-]{{0,40}})(?P<attributes>{_ATTRIBUTES})\s*(?P<empty>/?)>"
    rf"|{_DOCTYPE}|<[!?][^<>]{{0,2000}}>|(?P<entity>&\#?\w{{1,30}};)",
    re.ASCII | re.DOTALL,
)
_ATTRIBUTE: Final = re.compile(rf"([\w.:-]+)\s*=\s*({_VALUE})", re.ASCII)
_SPEAK: Final = re.compile(rf"[\s\ufeff]*(?:<\?xml[^<>]{{0,200}}\?>\s*)?(?:{_DOCTYPE}\s*)?<speak[\s>/]")
_TIME: Final = re.compile(r"\+?([0-9]{1,6}(?:\.[0-9]{1,3})?)(ms|s)")
_STRENGTHS_MS: Final = {"none": 0, "x-weak": 100, "weak": 150, "medium": 300, "strong": 600, "x-strong": 1000}
_SAID_AS: Final = {**{how: how for how in AS}, "spell-out": "characters", "number": "cardinal"}
_LANGUAGE: Final = re.compile(r"[A-Za-z]{2,3}(?:-[A-Za-z0-9]{2,8})?")
_ENTITIES: Final = ("&amp;", "&lt;", "&gt;", "&quot;", "&apos;")
_NOT_IN_SPAN: Final = regex.compile(r"[\[\]\n\p{C}]")
_STRUCTURE: Final = {"speak": "", "p": "\n", "s": " "}
"""Elements that are no markup to name, and what divides them from what follows."""


class Unmarked(Struct, frozen=True):
    """A text without markup, and how often each kind of markup was removed, by its name."""

    text: str
    removed: Mapping[str, int]


class _Open(Struct):
    """An element that is not closed yet, and the parts of its content."""

    name: str
    attributes: dict[str, str]
    tag: str
    content: list[str]


def unmarked(text: str) -> Unmarked:
    """The text with its markup in the notation of `notation.py`."""
    if "<" not in text:
        return Unmarked(text, {})
    whole = _SPEAK.match(text) is not None
    return _Reader(whole=whole).read(_without_comments(text) if whole else text)


def _without_comments(text: str) -> str:
    first, *others = text.split("<!--")
    return first + "".join(one.partition("-->")[2] if "-->" in one else one for one in others)


class _Reader:
    def __init__(self, *, whole: bool) -> None:
        self._whole = whole
        self._removed: Counter[str] = Counter()
        self._open = [_Open("", {}, "", [])]

    def read(self, text: str) -> Unmarked:
        begin = 0
        for found in _MARKUP.finditer(text):
            self._add(text[begin : found.start()])
            begin = found.end()
            self._markup(found)
        self._add(text[begin:])
        while len(self._open) > 1:
            self._end_without_tag()
        named = {
            name if name.startswith("&") else f"<{name}>": count for name, count in self._removed.items()
        }
        return Unmarked("".join(self._open[0].content), named)

    def _add(self, text: str) -> None:
        self._open[-1].content.append(text)

    def _markup(self, found: re.Match[str]) -> None:
        name, tag = found["name"], found[0]
        if name is None:
            self._other(found["entity"], tag)
        elif found["close"]:
            self._close(name, tag)
        elif not self._whole and name not in _READ:
            self._add(tag)
        else:
            values = {one[1]: html.unescape(one[2].strip("\"'")) for one in _ATTRIBUTE.finditer(tag)}
            if found["empty"] or name == "break":
                self._add(self._written(name, values, ""))
            else:
                self._open.append(_Open(name, values, tag, []))

    def _other(self, entity: str | None, tag: str) -> None:
        """An entity, a declaration."""
        if not self._whole:
            self._add(tag)
        elif entity in _ENTITIES or (entity or "").startswith("&#"):
            self._add(html.unescape(entity or ""))
        elif entity:
            self._removed[entity] += 1

    def _close(self, name: str, tag: str) -> None:
        if all(one.name != name for one in self._open):
            if not self._whole:
                self._add(tag)
            return
        while self._open[-1].name != name:
            self._end_without_tag()
        ended = self._open.pop()
        self._add(self._written(name, ended.attributes, "".join(ended.content)))

    def _end_without_tag(self) -> None:
        ended = self._open.pop()
        self._add(("" if self._whole else ended.tag) + "".join(ended.content))
        if self._whole and ended.name not in _STRUCTURE:
            self._removed[ended.name] += 1

    def _written(self, name: str, values: Mapping[str, str], content: str) -> str:
        """The element in notation. One that can't be written so is removed, and its content stays."""
        if name in _STRUCTURE:
            return content + _STRUCTURE[name]
        within = _NOT_IN_SPAN.sub(" ", flat(content))
        written = _READ[name](values, within) if name in _READ and len(within) <= TEXT_MAX_CHARS else None
        if written is None:
            self._removed[name] += 1
            return content
        return written


def _break(values: Mapping[str, str], content: str) -> str | None:
    time = _TIME.fullmatch(values.get("time", "").strip())
    pause_ms = float(time[1]) * (1 if time[2] == "ms" else 1000) if time else None
    if pause_ms is None and "time" not in values:
        pause_ms = _STRENGTHS_MS.get(values.get("strength", "medium"))
    return None if pause_ms is None else f"[](:break {round(min(pause_ms, BREAK_MAX_MS))}){content}"


def _sub(values: Mapping[str, str], _content: str) -> str | None:
    return values.get("alias")


def _say_as(values: Mapping[str, str], content: str) -> str | None:
    how = _SAID_AS.get(values.get("interpret-as", ""))
    order = values.get("format", "")
    return how and f"[{content}](:{how}{' ' + order if order in ('mdy', 'dmy', 'ymd') else ''})"


def _phoneme(values: Mapping[str, str], content: str) -> str | None:
    reading = values.get("ph", "")
    return f"[{content}](/{reading}/)" if kind_of(reading) else None


def _lang(values: Mapping[str, str], content: str) -> str | None:
    language = values.get("xml:lang", "")
    return f"[{content}](:lang {language})" if _LANGUAGE.fullmatch(language) else None


_READ: Final = {"break": _break, "sub": _sub, "say-as": _say_as, "phoneme": _phoneme, "lang": _lang}

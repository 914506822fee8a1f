"""Fills the form of a page with what was typed into it, and says what is wrong beside the field.

A form is refused, or its session has ended: the page is made as for any visit, and then changed here, so that
no template and no page function repeats what was typed. Fields of secrets and files stay empty. The form of
an ended session is kept by the browser, in a cookie: a site does not store what somebody unknown sends.
"""

import base64
import binascii
import re
import zlib
from collections.abc import Sequence
from html.parser import HTMLParser

import msgspec
from markupsafe import escape
from msgspec import Struct, field
from starlette.datastructures import FormData

from myna.errors.sentences import SentenceError

SECRETS = frozenset({"code", "current_password", "key", "password", "secret"})
"""Names of fields that no page repeats."""
KEPT_MAX_CHARS = 3500
"""Browsers keep cookies of 4 KB."""
UNPACKED_MAX_BYTES = 64 * 1024
_CHOICES = ("checkbox", "radio")
_UNFILLED = ("hidden", "password", "file", "submit")
Attributes = dict[str, str | None]
Edit = tuple[int, int, str]


class Refill(Struct, frozen=True):
    """What was typed into the form of this action. `said` is why it was refused, "" if it was not."""

    action: str
    typed: FormData
    said: str = ""
    error: SentenceError | None = None


class Kept(Struct, frozen=True):
    """A form that was not accepted, and the address of its page."""

    page: str
    action: str
    fields: list[tuple[str, str]]

    @property
    def refill(self) -> Refill:
        return Refill(self.action, FormData([*self.fields]))


def packed(page: str, action: str, typed: FormData) -> str:
    """The form as the value of a cookie, without its secrets; "" for one without fields, or too large."""
    fields = [
        (name, value)
        for name, value in typed.multi_items()
        if isinstance(value, str) and name not in (*SECRETS, "once")
    ]
    data = zlib.compress(msgspec.json.encode(Kept(page, action, fields)), 9)
    text = base64.urlsafe_b64encode(data).decode()
    return text if fields and len(text) <= KEPT_MAX_CHARS else ""


def unpacked(text: str) -> Kept | None:
    """The form of a cookie; None for any other value."""
    try:
        data = zlib.decompressobj().decompress(base64.urlsafe_b64decode(text), UNPACKED_MAX_BYTES)
        return msgspec.json.decode(data, type=Kept)
    except (binascii.Error, ValueError, zlib.error, msgspec.DecodeError):
        return None


class _Control(Struct):
    """An input, select or textarea of a form, with the places of its start tag and of the text after it."""

    tag: str
    name: str
    attributes: Attributes
    start: int
    end: int
    after: int = 0
    options: list[tuple[int, int, Attributes]] = field(default_factory=list)

    @property
    def kind(self) -> str:
        """The type of an input, otherwise the tag."""
        return "hidden" if "hidden" in self.attributes else self.attributes.get("type") or self.tag


class _Form(Struct):
    """A form, with the closed `details` around it."""

    actions: tuple[str, ...]
    end: int
    closed: list[int]
    controls: list[_Control] = field(default_factory=list)

    def sent(self, refill: Refill) -> bool:
        """Whether it is the form that was sent: of several with one action, the hidden fields say which."""
        return refill.action in self.actions and all(
            (one.attributes.get("value") or "") in refill.typed.getlist(one.name)
            for one in self.controls
            if one.kind == "hidden" and one.tag == "input" and one.name != "once"
        )


class _Reader(HTMLParser):
    """Finds the forms of a page, whose own address is `path`."""

    def __init__(self, html: str, path: str) -> None:
        super().__init__()
        self.forms: list[_Form] = []
        self._path = path
        self._lines = [0, *(match.end() for match in re.finditer("\n", html))]
        self._details: list[tuple[int, bool]] = []
        self._label: list[_Control] = []
        self._is_open = False
        self.feed(html)

    def _place(self) -> int:
        line, column = self.getpos()
        return self._lines[line - 1] + column

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        start = self._place()
        end = start + len(self.get_starttag_text() or "")
        found = dict(attrs)
        if tag == "details":
            self._details.append((end - 1, "open" in found))
        elif tag == "label":
            self._label = []
        elif tag == "form" and found.get("method") == "post":
            action = (found.get("action") or self._path).partition("?")[0]
            closed = [place for place, is_open in self._details if not is_open]
            self.forms.append(_Form((action, found.get("data-stream") or action), end, closed))
            self._is_open = True
        elif self._is_open and tag == "option":
            self.forms[-1].controls[-1].options.append((start, end, found))
        elif self._is_open and tag in ("input", "select", "textarea"):
            control = _Control(tag, found.get("name") or "", found, start, end, end)
            self.forms[-1].controls.append(control)
            self._label.append(control)

    def handle_endtag(self, tag: str) -> None:
        end = self._place() + len(tag) + 3
        if tag == "details":
            self._details.pop()
        elif tag == "form":
            self._is_open = False
        elif tag == "label":
            for control in self._label:
                control.after = end
        elif tag in ("select", "textarea") and self._is_open:
            self.forms[-1].controls[-1].after = end


def refilled(html: str, path: str, refill: Refill) -> str | None:
    """The page of this path with its form filled in; None if the page does not have the form."""
    form = next((one for one in _Reader(html, path).forms if one.sent(refill)), None)
    if form is None:
        return None
    visible = [one for one in form.controls if one.kind != "hidden"]
    wrong = _wrong(visible, refill) if refill.said else None
    edits: list[Edit] = []
    for control in visible:
        edits += _filled(control, refill.typed, control is wrong)
    if refill.said:
        edits += [(place, place, " open") for place in form.closed]
        edits.append(_fault(form, wrong, refill.said))
    for start, end, text in sorted(edits, reverse=True):
        html = html[:start] + text + html[end:]
    return html


def _fault(form: _Form, wrong: _Control | None, said: str) -> Edit:
    """The sentence below the field, or at the beginning of the form."""
    if wrong is None:
        return form.end, form.end, f'<p class="error" role="alert">{escape(said)}</p>'
    text = f'<p class="fault" role="alert" id="{escape(wrong.name)}-fault">{escape(said)}</p>'
    return wrong.after, wrong.after, text


def _wrong(visible: Sequence[_Control], refill: Refill) -> _Control | None:
    """The field that the error is about: its own, the only one, or the one with the value that it repeats."""
    texts = [one for one in visible if one.kind not in _CHOICES]
    names = {one.name for one in texts}
    error = refill.error
    if error is not None and error.field:
        return next((one for one in visible if one.name == error.field), None)
    if len(names) == 1:
        return texts[0]
    if error is None or names == {"name", "password"}:  # a sign-in, which does not tell which one is wrong
        return None
    values = [value for value in error.values.values() if isinstance(value, str) and value]
    repeats = [one for one in texts if one.name in refill.typed and refill.typed[one.name] in values]
    return repeats[0] if len(repeats) == 1 else None


def _filled(control: _Control, typed: FormData, wrong: bool) -> list[Edit]:
    """The changes of one field."""
    attributes = {name: value for name, value in control.attributes.items() if name != "autofocus"}
    values = [value for value in typed.getlist(control.name) if isinstance(value, str)]
    edits: list[Edit] = []
    if control.kind in _CHOICES:
        attributes = _marked(attributes, "checked", (attributes.get("value") or "on") in values)
    elif values and control.tag == "select":
        edits += [
            (start, end, _tag("option", _marked(found, "selected", (found["value"] or "") in values)))
            for start, end, found in control.options
            if "value" in found
        ]
    elif values and control.name not in SECRETS and control.kind not in _UNFILLED:
        if control.tag == "textarea":
            end = control.after - len("</textarea>")
            edits.append((control.end, end, f"\n{escape(values[-1])}"))
        else:
            attributes["value"] = values[-1]
    if wrong:
        described = f"{attributes.pop('aria-describedby', '') or ''} {control.name}-fault".strip()
        attributes |= {"aria-describedby": described, "aria-invalid": "true", "autofocus": None}
    return [*edits, (control.start, control.end, _tag(control.tag, attributes))]


def _marked(attributes: Attributes, name: str, is_on: bool) -> Attributes:
    """The attributes with this one, which has no value, or without it."""
    others = {other: value for other, value in attributes.items() if other != name}
    return {**others, name: None} if is_on else others


def _tag(tag: str, attributes: Attributes) -> str:
    said = (
        f" {name}" if value is None else f' {name}="{escape(value)}"' for name, value in attributes.items()
    )
    return f"<{tag}{''.join(said)}>"

"""The back office by HTTP, as a browser without scripts uses it: cookies, forms, redirects."""

import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import urlencode, urlsplit
from weakref import WeakKeyDictionary

from tests.rig.calls import Answer, call
from tests.rig.service import Service

PASSWORD = "correct horse battery staple 42"


@dataclass
class Visitor:
    """A browser profile. `headers` are sent with every request."""

    service: Service
    cookies: dict[str, str] = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)
    page_before: str = ""

    def get(self, path: str, headers: Mapping[str, str] = {}) -> Answer:
        """A page below /office."""
        return self._send("GET", path, None, headers)

    def post(self, path: str, headers: Mapping[str, str] = {}, **fields: str | list[str]) -> Answer:
        """Sends a form as a page of the site does. The answer is not followed."""
        body = urlencode({"once": secrets.token_hex(32), **fields}, doseq=True).encode()
        form = {"content-type": "application/x-www-form-urlencoded", "origin": self.service.root_url}
        return self._send("POST", path, body, {**form, **headers})

    def upload(self, path: str, /, file: tuple[str, str, bytes], **fields: str) -> Answer:
        """Sends a form with a file: its field, its name and its content."""
        field_of_file, file_name, content = file
        fields = {"once": secrets.token_hex(32), **fields}
        boundary = "a-boundary-of-the-tests"
        disposition = f"--{boundary}\r\ncontent-disposition: form-data; name="
        parts = [f'{disposition}"{name}"\r\n\r\n{value}\r\n'.encode() for name, value in fields.items()]
        head = f'{disposition}"{field_of_file}"; filename="{file_name}"\r\n\r\n'
        body = b"".join([*parts, head.encode(), content, f"\r\n--{boundary}--\r\n".encode()])
        form = {"content-type": f"multipart/form-data; boundary={boundary}", "origin": self.service.root_url}
        return self._send("POST", path, body, form)

    def result(self, path: str, **fields: str | list[str]) -> Answer:
        """Sends a form that must succeed; the page after the redirect."""
        answer = self.post(path, {}, **fields)
        if answer.status != 303:
            raise AssertionError(f"{path}: {answer.status}\n{text_of(answer)}")
        return self.get(answer.headers["location"].removeprefix("/office"))

    def submit(self, path: str, **fields: str | list[str]) -> str:
        """Sends a form that must succeed; the text of the page after the redirect."""
        answer = self.result(path, **fields)
        if answer.status != 200:
            raise AssertionError(f"{path}: {answer.status}\n{text_of(answer)}")
        return text_of(answer)

    def page(self, path: str) -> str:
        """The text of a page that must exist, without tags."""
        answer = self.get(path)
        if answer.status != 200:
            raise AssertionError(
                f"{path}: {answer.status} {answer.headers.get('location')}\n{text_of(answer)}"
            )
        return text_of(answer)

    def open_link(self, link: str, **fields: str) -> None:
        """Uses a one-time link to set PASSWORD, which signs in."""
        parts = urlsplit(link)
        token = parts.query.removeprefix("token=")
        self.submit(f"/welcome?{parts.query}", token=token, password=PASSWORD, **fields)

    def _send(self, method: str, path: str, body: bytes | None, headers: Mapping[str, str]) -> Answer:
        sent = {"accept-language": "en", **self.headers, **headers}
        if method == "POST" and self.page_before:
            sent.setdefault("referer", self.page_before)
        if self.cookies:
            sent["cookie"] = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
        answer = call(method, f"{self.service.root_url}/office{path}", body=body, headers=sent)
        if method == "GET" and answer.status == 200:
            self.page_before = f"{self.service.root_url}/office{path}"
        for cookie in answer.cookies:
            name, _, value = cookie.partition(";")[0].partition("=")
            self.cookies[name] = value
            if "max-age=0" in cookie.lower():
                del self.cookies[name]
        return answer


def text_of(answer: Answer) -> str:
    """What a page says, without tags; entities stay as they are."""
    html = re.sub(r"(?s)<(script|style|svg)\b.*?</\1>", " ", answer.body.decode())
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", html)).strip()


_SIGNED_IN: WeakKeyDictionary[Service, dict[str, Visitor]] = WeakKeyDictionary()


@dataclass
class People:
    """Makes accounts and signs them in."""

    service: Service

    def visitor(self) -> Visitor:
        return Visitor(self.service)

    def signed_in(self, name: str, *, operator: bool = False, units: int = 1000) -> Visitor:
        """A new account, invited by the command line, with a session."""
        known = _SIGNED_IN.setdefault(self.service, {})
        if name in known:
            return known[name]  # of a fixture that is made again, since another worker had its other tests
        mailbox = re.sub(r"[^\w.+-]", "", name)
        arguments = ["account", "add", name, "--units", str(units), "--email", f"{mailbox}@example.org"]
        made = self.service.cli(*arguments, *(["--operator"] if operator else []))
        visitor = self.visitor()
        visitor.open_link(made["link"])
        known[name] = visitor
        return visitor

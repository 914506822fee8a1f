"""Lines to paste that use a key or send a request of the page Try: for curl and for OpenAI's clients.

JSON's strings, lists and objects are literals of Python and of JavaScript too.
"""

import json
import shlex
from collections.abc import Mapping
from textwrap import indent

from msgspec import Struct

from myna.accounts.keys import Scope

PLACEHOLDER = "YOUR_KEY"
LINE_MAX_CHARS = 50
_CHAT = {"model": "svc-chat", "messages": [{"role": "user", "content": "Hello"}]}


class ClientLines(Struct, frozen=True):
    """The lines for one client. `install` is the command that installs the client, "" for none."""

    client: str
    text: str
    install: str = ""


def client_lines(root_url: str, key: str, scopes: Scope) -> list[ClientLines]:
    """Lines for a first request with this key to the service at `root_url`."""
    if Scope.CHAT in scopes:
        return chat_lines(f"{root_url}/openai/v1", _CHAT, key)
    if Scope.TTS in scopes:
        return [ClientLines("curl", _curl(f"{root_url}/v1/tts", {"text": "Hello"}, key))]
    return [ClientLines("curl", _curl(f"{root_url}/v1/records", None, key))]


def chat_lines(base_url: str, body: Mapping[str, object], key: str = PLACEHOLDER) -> list[ClientLines]:
    """Lines for POST /chat/completions with this body; `base_url` ends in /v1."""
    model, messages = _literal(body["model"]), _literal(body["messages"])
    python = f"""answer = client.chat.completions.create(
    model={model},
    messages={_hanging(messages)},
)
print(answer.choices[0].message.content)"""
    node = f"""const answer = await client.chat.completions.create({{
  model: {model},
  messages: {_hanging(messages, 2)},
}});
console.log(answer.choices[0].message.content);"""
    return _lines(base_url, "/chat/completions", body, python, node, key)


def speech_lines(base_url: str, body: Mapping[str, object]) -> list[ClientLines]:
    """Lines for POST /tts with this body. OpenAI's clients have a method for paths of a site's own."""
    literal = _literal(body)
    python = f"""answer = client.post("/tts", cast_to=object, body={literal})
print(answer)"""
    node = f"""const answer = await client.post("/tts", {{ body: {literal} }});
console.log(answer);"""
    return _lines(base_url, "/tts", body, python, node, PLACEHOLDER)


def _lines(
    base_url: str, path: str, body: Mapping[str, object], python: str, node: str, key: str
) -> list[ClientLines]:
    """Lines that send the body to a path, for all clients, with what `python` and `node` do with `client`."""
    url, secret = _literal(base_url), _literal(key)
    python = f"""from openai import OpenAI

client = OpenAI(base_url={url}, api_key={secret})
{python}"""
    node = f"""import OpenAI from "openai";

const client = new OpenAI({{ baseURL: {url}, apiKey: {secret} }});
{node}"""
    return [
        ClientLines("curl", _curl(f"{base_url}{path}", body, key)),
        ClientLines("openai-python", python, "pip install openai"),
        ClientLines("openai-node", node, "npm install openai"),
    ]


def _curl(url: str, body: Mapping[str, object] | None, key: str) -> str:
    lines = [f"curl {shlex.quote(url)}", f"-H {shlex.quote(f'Authorization: Bearer {key}')}"]
    if body is not None:
        content = json.dumps(body, ensure_ascii=False)
        lines += ["-H 'Content-Type: application/json'", f"-d {shlex.quote(content)}"]
    return " \\\n  ".join(lines)


def _literal(value: object) -> str:
    """On one line if it is short."""
    line = json.dumps(value, ensure_ascii=False)
    return line if len(line) <= LINE_MAX_CHARS else json.dumps(value, ensure_ascii=False, indent=2)


def _hanging(text: str, spaces: int = 4) -> str:
    """The text with all lines but the first indented."""
    return indent(text, " " * spaces).lstrip()

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


class ClientLines(Struct, frozen=True):
    """The lines for one client. `install` is the command that installs the client, "" for none."""

    client: str
    text: str
    install: str = ""


def client_lines(root_url: str, key: str, scopes: Scope) -> list[ClientLines]:
    """Lines for a first request with this key to the service at `root_url`."""
    if Scope.CHAT in scopes:
        base_url = f"{root_url}/openai/v1"
        return [
            ClientLines("curl", _curl(f"{base_url}/chat/completions", key, _CHAT)),
            ClientLines("openai-python", _python(base_url, key), "pip install openai"),
            ClientLines("openai-node", _node(base_url, key), "npm install openai"),
        ]
    if Scope.TTS in scopes:
        return [ClientLines("curl", _curl(f"{root_url}/v1/tts", key, {"text": "Hello"}))]
    return [ClientLines("curl", _curl(f"{root_url}/v1/records", key, None))]


_CHAT = {"model": "svc-chat", "messages": [{"role": "user", "content": "Hello"}]}


def _curl(url: str, key: str, body: object) -> str:
    lines = [f"curl {shlex.quote(url)}", f"-H {shlex.quote(f'Authorization: Bearer {key}')}"]
    if body is not None:
        lines += ["-H 'Content-Type: application/json'", f"-d {shlex.quote(json.dumps(body))}"]
    return " \\\n  ".join(lines)


def _python(base_url: str, key: str) -> str:
    return f"""from openai import OpenAI

client = OpenAI(base_url={json.dumps(base_url)}, api_key={json.dumps(key)})
answer = client.chat.completions.create(
    model="svc-chat",
    messages=[{{"role": "user", "content": "Hello"}}],
)
print(answer.choices[0].message.content)"""


def _node(base_url: str, key: str) -> str:
    return f"""import OpenAI from "openai";

const client = new OpenAI({{ baseURL: {json.dumps(base_url)}, apiKey: {json.dumps(key)} }});
const answer = await client.chat.completions.create({{
  model: "svc-chat",
  messages: [{{ role: "user", content: "Hello" }}],
}});
console.log(answer.choices[0].message.content);"""


def chat_lines(base_url: str, body: Mapping[str, object]) -> list[ClientLines]:
    """Lines for POST /chat/completions with this body; `base_url` ends in /v1."""
    model, messages = _literal(body["model"]), _literal(body["messages"])
    python = f"""{_python_head(base_url)}
answer = client.chat.completions.create(
    model={model},
    messages={_hanging(messages)},
)
print(answer.choices[0].message.content)"""
    node = f"""{_node_head(base_url)}
const answer = await client.chat.completions.create({{
  model: {model},
  messages: {_hanging(messages, 2)},
}});
console.log(answer.choices[0].message.content);"""
    return _lines(f"{base_url}/chat/completions", body, python, node)


def speech_lines(base_url: str, body: Mapping[str, object]) -> list[ClientLines]:
    """Lines for POST /tts with this body. OpenAI's clients have a method for paths of a site's own."""
    literal = _literal(body)
    python = f"""{_python_head(base_url)}
answer = client.post("/tts", cast_to=object, body={literal})
print(answer)"""
    node = f"""{_node_head(base_url)}
const answer = await client.post("/tts", {{ body: {literal} }});
console.log(answer);"""
    return _lines(f"{base_url}/tts", body, python, node)


def _lines(url: str, body: Mapping[str, object], python: str, node: str) -> list[ClientLines]:
    curl = " \\\n  ".join(
        (
            f"curl {shlex.quote(url)}",
            f"-H {shlex.quote(f'Authorization: Bearer {PLACEHOLDER}')}",
            "-H 'Content-Type: application/json'",
            f"-d {shlex.quote(json.dumps(body, ensure_ascii=False))}",
        )
    )
    return [
        ClientLines("curl", curl),
        ClientLines("openai-python", python, "pip install openai"),
        ClientLines("openai-node", node, "npm install openai"),
    ]


def _python_head(base_url: str) -> str:
    return f"""from openai import OpenAI

client = OpenAI(base_url={_literal(base_url)}, api_key={_literal(PLACEHOLDER)})"""


def _node_head(base_url: str) -> str:
    return f"""import OpenAI from "openai";

const client = new OpenAI({{ baseURL: {_literal(base_url)}, apiKey: {_literal(PLACEHOLDER)} }});"""


def _literal(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, indent=2 if isinstance(value, list | dict) else None)


def _hanging(text: str, spaces: int = 4) -> str:
    """The text with all lines but the first indented."""
    return indent(text, " " * spaces).lstrip()

"""Lines to paste that send a request of the page Try: for curl and for OpenAI's clients.

JSON's strings, lists and objects are literals of Python and of JavaScript too.
"""

import json
import shlex
from collections.abc import Mapping
from textwrap import indent

from myna.office.client_lines import PLACEHOLDER, ClientLines


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

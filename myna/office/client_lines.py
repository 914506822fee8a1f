"""Lines to paste that use a key: for curl and for OpenAI's clients."""

import json
import shlex

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

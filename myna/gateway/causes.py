"""The likely cause why a channel does not work, for its operator: found with requests that cost nothing."""

import re
from http import HTTPStatus
from typing import Final

from myna.channels.channels import PARROT, Channel, is_local
from myna.errors.sentences import SentenceError
from myna.gateway.chat.discovery import models_in
from myna.gateway.chat.failover import without_secrets
from myna.http.client import ClientResponse, HttpClient, RequestFailed
from myna.lib.net import without_login
from myna.wire.failures import read

WAIT_S: Final = 3.0
ANSWER_MAX_BYTES: Final = 4 * 2**20
MODELS_SHOWN: Final = 10
SAID_MAX_CHARS: Final = 200
ENDPOINTS: Final = (
    "/chat/completions", "/completions", "/chat", "/responses", "/embeddings", "/models", "/audio/speech",
    "/audio/transcriptions", "/audio/translations", "/audio/voices", "/audio",
)  # fmt: skip
_VERSIONED: Final = re.compile(r"/v\d+[a-z0-9]*(/|$)")
_REFUSALS: Final = (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN)


class Cause(SentenceError):
    """A sentence about a channel that says what to change."""


async def likely_cause(
    http_client: HttpClient, channel: Channel, *, told: str = "", refused: bool = False
) -> Cause | None:
    """What is probably wrong with a channel, if that can be told. `refused`: its server refused a request
    without a mistake. `told` is what the operator is told already."""
    if channel.url == PARROT or is_local(channel):
        return None
    if wrong := cause_in_url(channel.url):
        return wrong
    base = channel.url.rstrip("/")
    listed = await _models(http_client, channel, base)
    if listed is None:
        return None
    if listed.status in _REFUSALS:
        said = in_line(read(listed.status, listed.body).message, channel)
        return _of_key(channel, "" if said in told else said)
    models = _listed(listed)
    if models is None and not _VERSIONED.search(base):
        below = await _models(http_client, channel, f"{base}/v1")
        found = below and (below.status in _REFUSALS or _listed(below) is not None)
        if found or (refused and listed.status == HTTPStatus.NOT_FOUND):
            return Cause("Its base URL lacks /v1: use {base}/v1.", base=without_login(base))
    if refused or (channel.kind == "chat" and channel.model):  # what serves speech often lists other models
        return _of_model(channel.model, models or [])
    return None


def cause_in_url(url: str) -> Cause | None:
    """What is wrong with a base URL, if that can be told without its server."""
    base = without_login(url.rstrip("/"))
    endpoint = next((each for each in ENDPOINTS if base.endswith(each)), "")
    if not endpoint:
        return None
    return Cause(
        "Its base URL ends in an endpoint, {endpoint}: use {base}.",
        endpoint=endpoint,
        base=base.removesuffix(endpoint),
    )


def wrong_url(url: str) -> Cause | None:
    """What is certainly wrong with a base URL: an endpoint in two parts, or after a version. A server may
    have its API below /models."""
    cause = cause_in_url(url)
    endpoint, base = (str(cause.values[name]) for name in ("endpoint", "base")) if cause else ("", "")
    return cause if endpoint.count("/") > 1 or _VERSIONED.search(base) else None


def in_line(text: str, channel: Channel) -> str:
    """A server's sentence, for the operator: the beginning, in one line, without the channel's secrets."""
    plain = "".join(each if each.isprintable() else " " for each in without_secrets(text, channel))
    return " ".join(plain.split())[:SAID_MAX_CHARS].rstrip(".")


async def _models(http_client: HttpClient, channel: Channel, base: str) -> ClientResponse | None:
    try:
        return await http_client.request(
            "GET",
            f"{base}/models",
            headers=channel.headers(),
            body=None,
            deadline_s=WAIT_S,
            answer_max_bytes=ANSWER_MAX_BYTES,
        )
    except RequestFailed:  # the channel's test says so
        return None


def _listed(answer: ClientResponse) -> list[str] | None:
    return (models_in(answer.body) or None) if answer.status == HTTPStatus.OK else None


def _of_key(channel: Channel, said: str) -> Cause:
    if not channel.key:
        return Cause("Its server asks for a key: store one, or name the variable that contains it.")
    if said:
        return Cause("Its server refuses the key: {said}.", said=said)
    return Cause("Its server refuses the key.")


def _of_model(model: str, models: list[str]) -> Cause | None:
    if not models or model in models or f"{model}:latest" in models:
        return None
    more = len(models) - MODELS_SHOWN
    shown = ", ".join(models[:MODELS_SHOWN]) + (f", … ({more})" if more > 0 else "")
    if not model:
        return Cause("It has no model of its own; its server lists {models}.", models=shown)
    return Cause(
        "Its server does not list the model {model!r}; it lists {models}.", model=model, models=shown
    )

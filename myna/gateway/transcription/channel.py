"""Passes a recording on to a channel, which transcribes it."""

import secrets
from collections.abc import Iterator
from typing import Final

import msgspec

from myna.channels.channels import Channel
from myna.gateway.chat.failover import FailedAttempt, answer_of
from myna.gateway.transcription.request import TranscriptFormat, TranscriptionRequest
from myna.http.client import ClientResponse, HttpClient

_JSON: Final = (TranscriptFormat.JSON, TranscriptFormat.VERBOSE_JSON)
_MARKUP: Final = ("text/html", "application/xhtml", "application/xml")


class _Text(msgspec.Struct):
    text: str


_text = msgspec.json.Decoder(_Text)


async def ask(
    http_client: HttpClient,
    channel: Channel,
    request: TranscriptionRequest,
    model: str,
    recording: bytes,
    *,
    model_is_callers: bool,
    deadline_s: float,
    answer_max_bytes: int,
) -> bytes:
    """The body of the channel's answer, in the request's format. Raises FailedAttempt."""
    media_type, body = form_of(request, model, recording)
    answer = await answer_of(
        http_client,
        channel,
        "/audio/translations" if request.translate else "/audio/transcriptions",
        body,
        headers=channel.headers("*/*") | {"content-type": media_type},
        deadline_s=deadline_s,
        answer_max_bytes=answer_max_bytes,
        model_is_callers=model_is_callers,
    )
    return _checked(answer, request.format)


def form_of(request: TranscriptionRequest, model: str, recording: bytes) -> tuple[str, bytes]:
    """The content type and the body of the form for a channel: the caller's fields, with this model. A
    language is a code, as OpenAI documents it, and the answer is asked for as a whole."""
    boundary = secrets.token_hex(16)
    ours = {"model": model, "language": request.language or "", "stream": ""}
    fields = [*ours.items(), *((name, value) for name, value in request.fields if name not in ours)]
    parts = [
        b"--%b\r\nContent-Disposition: form-data; name=%b\r\n\r\n%b\r\n"
        % (boundary.encode(), _quoted(name), value.encode())
        for name, value in fields
        if value or name not in ours
    ]
    upload = request.upload
    head = b"--%b\r\nContent-Disposition: form-data; name=" % boundary.encode()
    head += b'"file"; filename=%b\r\n' % _quoted(upload.name or "recording")
    head += b"Content-Type: %b\r\n\r\n" % _media_type(upload.media_type)
    body = b"".join([*parts, head, recording, b"\r\n--%b--\r\n" % boundary.encode()])
    return f"multipart/form-data; boundary={boundary}", body


def _quoted(name: str) -> bytes:
    """A name in a header, as browsers encode it (HTML, 4.10.22.8): quotes and line ends become escapes."""
    escaped = "".join(_escapes(name))
    return b'"%b"' % escaped.encode(errors="replace")


def _escapes(name: str) -> Iterator[str]:
    for character in name:
        yield {'"': "%22", "\r": "%0D", "\n": "%0A"}.get(character, character)


def _media_type(given: str) -> bytes:
    plain = given.isascii() and given.isprintable() and bool(given)
    return given.encode() if plain else b"application/octet-stream"


def _checked(answer: ClientResponse, kind: TranscriptFormat) -> bytes:
    """The body, if it is a transcript in this format. Raises FailedAttempt."""
    media_type = answer.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type.startswith(_MARKUP) or not answer.body:
        raise FailedAttempt("NoTranscript", "the answer is no transcript")
    try:
        if kind in _JSON:
            _text.decode(answer.body)
        else:
            answer.body.decode()
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise FailedAttempt("NoTranscript", "the answer is no transcript", f": {error}") from error
    return answer.body

"""A whole response, and the responses for errors in the two shapes that clients expect."""

import logging
from collections.abc import Mapping

from msgspec import Struct

from myna.errors import InternalError, MynaError
from myna.wire.body import to_json
from myna.wire.openai import OpenAIError, OpenAIErrorBody
from myna.wire.v1 import ErrorAnswer, ErrorBody

log = logging.getLogger(__name__)

JSON = b"application/json; charset=utf-8"
"""JSON is UTF-8 without saying so, but some clients take text without a charset for Latin-1."""
OPENAI_PREFIX = "/openai/"
"""Errors below this path have the shape of OpenAI's API; all others that of /v1."""


class Response(Struct, frozen=True):
    """A response. `close` closes the connection after it and discards what the client still sends.
    `error_type` and `message` are the error's that it tells, for the access log; not the error itself, whose
    traceback has frames with the response: a reference cycle."""

    body: bytes
    status: int = 200
    headers: Mapping[str, str] = {}
    close: bool = False
    media_type: bytes = JSON
    error_type: str = ""
    message: str = ""


def public_error(error: Exception) -> MynaError:
    """The error to send to the client: a MynaError, or an InternalError whose cause is only in the log."""
    if isinstance(error, MynaError):
        if isinstance(error, InternalError):
            log.error("%s", error.message)
        return error
    log.error("unhandled exception", exc_info=error)
    return InternalError("Something went wrong on our side; the log has it under this request's id.")


def envelope(error: MynaError, path: str = "") -> Response:
    """The response for an error of a request to `path`."""
    if path.startswith(OPENAI_PREFIX):
        status = error.openai_status or error.status
        body = to_json(openai_error(error))
    else:
        status = error.status
        body = to_json(ErrorAnswer(ErrorBody(error.message, error.type, int(status))))
    return Response(
        body=body,
        status=int(status),
        headers=error.headers,
        close=error.closes,
        error_type=error.type,
        message=error.message,
    )


def openai_error(error: MynaError) -> OpenAIError:
    """The error in the shape of OpenAI's API."""
    body = OpenAIErrorBody(
        message=error.message,
        type=error.openai_type or error.type,
        param=error.field or None,
        code=error.code,
    )
    return OpenAIError(body)

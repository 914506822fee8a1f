"""Errors of the fallback application, Starlette, in the error envelope."""

from starlette.requests import Request
from starlette.responses import Response

from myna.errors import InvalidRequest, MethodNotAllowed, MynaError, NotFound
from myna.http.asgi_types import DETAILS
from myna.http.responses import JSON, envelope, public_error

NO_PATH = "There is no such path; see /openapi.json."
NO_V1_PATH = f"{NO_PATH} OpenAI's clients use the base URL that ends in /openai/v1."


async def http_error(request: Request, error: Exception) -> Response:
    """The answer to an HTTP error of Starlette: no such path or method."""
    status = getattr(error, "status_code", 500)
    if status == 404:
        return _answer(request, NotFound(NO_V1_PATH if request.url.path.startswith("/v1/") else NO_PATH))
    if status == 405:
        allow = (getattr(error, "headers", None) or {}).get("Allow", "GET")
        return _answer(request, MethodNotAllowed(request.method, allow))
    return _answer(request, InvalidRequest(str(getattr(error, "detail", "The request can't be served."))))


async def answer_for(request: Request, error: Exception) -> Response:
    """The answer to any other error."""
    return _answer(request, public_error(error))


def _answer(request: Request, error: MynaError) -> Response:
    request.scope[DETAILS].failed(error)
    answer = envelope(error, request.url.path)
    headers = dict(answer.headers or {})
    return Response(answer.body, answer.status, headers, media_type=JSON.decode())

"""Cookies, headers and the same-origin check of the back office.

The rules are those of the OWASP ASVS 5.0, chapters 3 and 7; docs/security.md has them with their tests.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Callable

from starlette.requests import Request
from starlette.responses import Response

from myna.errors import Forbidden, RateLimited, sentences
from myna.lib.telemetry.requests import RequestDetails

SESSION_COOKIE = "myna"
NOTICE_COOKIE = "myna-notice"
RESULT_COOKIE = "myna-result"
"""Opens the page of a form's result, which is shown once."""
FORM_COOKIE = "myna-form"
"""A form that was sent after its session had ended: see `refill.py`."""
OIDC_COOKIE = "myna-oidc"
"""Ties sign-ins at the provider to the browser that began them."""
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; media-src 'self' blob:;"
    " connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
_COMMON = {
    "Content-Security-Policy": _POLICY,
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=(self)",
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
}
CALL_HEADER = "X-Myna-Call"
HSTS_S = 365 * 86_400
FORMS_PER_MINUTE_MAX = 120
"""Forms of one account, in each process."""
REFUSAL_DELAY_S = 1.0
"""A refused form is answered after this time: a client that sends the next one at once would keep the event
loop busy with refusals."""


class Cookies:
    """Sets and reads the cookies. `https`: browsers reach the site by HTTPS, so cookies are `Secure` and have
    the prefix `__Host-`. Over plain HTTP browsers would drop such cookies, and sign-in would loop."""

    def __init__(self, https: bool) -> None:
        self._https = https
        self._prefix = "__Host-" if https else ""

    def get(self, request: Request, name: str) -> str:
        """The value, "" without one."""
        return request.cookies.get(self._prefix + name, "")

    def set(self, response: Response, name: str, value: str) -> None:
        """Sets a cookie that ends with the browser's session."""
        response.set_cookie(self._prefix + name, value, secure=self._https, httponly=True, samesite="lax")

    def is_set(self, response: Response, name: str) -> bool:
        """Whether the response sets or deletes the cookie."""
        begin = f"{self._prefix}{name}="
        return any(value.startswith(begin) for value in response.headers.getlist("set-cookie"))

    def delete(self, response: Response, name: str) -> None:
        response.delete_cookie(self._prefix + name, secure=self._https, httponly=True, samesite="lax")


def check_same_origin(request: Request, public_url: str) -> None:
    """Raises Forbidden unless a page of this site sent the request.

    Browsers send Sec-Fetch-Site over HTTPS and to loopback. Elsewhere the Origin must be this site's: its
    public URL, or the host that the request names. A page of another site can't choose the Host header.
    """
    fetch_site = request.headers.get("sec-fetch-site")
    if fetch_site is not None:
        if fetch_site == "same-origin":
            return
        raise Forbidden("Another site sent this form. Open the page here and send it again.")
    origin = request.headers.get("origin")
    if origin is None:
        raise Forbidden("Your browser did not say which site the form is from, so it was not accepted.")
    if origin != public_url and origin.partition("://")[2] != request.headers.get("host"):
        raise Forbidden(
            "The form came from {origin}. Open the page here and send it again.", origin=origin[:100]
        )


def security_headers(https: bool) -> dict[str, str]:
    """The headers of every response. It is not stored, unless it has a Cache-Control header of its own."""
    hsts = {"Strict-Transport-Security": f"max-age={HSTS_S}"} if https else {}
    return {**_COMMON, "Cache-Control": "no-store", **hsts}


def stream_headers(https: bool, details: RequestDetails) -> dict[str, str]:
    """The headers of a streamed response: the security headers of a page, and the call's id in hex."""
    return {**security_headers(https), CALL_HEADER: details.call_id.hex()}


def protect(response: Response, https: bool) -> None:
    """Adds the security headers to a response."""
    for name, value in security_headers(https).items():
        response.headers.setdefault(name, value)


class FormRate:
    """Limits the forms of an account in a minute of the clock."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._minute = 0
        self._forms: Counter[int] = Counter()

    async def count(self, account_id: int) -> None:
        """Counts a form. Raises RateLimited."""
        minute, second = divmod(int(self._clock()), 60)
        if minute != self._minute:
            self._minute = minute
            self._forms.clear()
        self._forms[account_id] += 1
        if self._forms[account_id] > FORMS_PER_MINUTE_MAX:
            wait_s = 60 - second
            await asyncio.sleep(REFUSAL_DELAY_S)
            raise RateLimited(
                sentences.FORMS_PER_MINUTE,
                {"Retry-After": str(wait_s)},
                most=FORMS_PER_MINUTE_MAX,
                wait_s=wait_s,
            )

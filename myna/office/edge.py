"""The edge under /office: from a request to a page.

For each request: the session of the cookie, then who may open the page, for a form the same-origin check and
its limits, then the page's function. An operator's page is a 404 for others, as is every object of another
account.
"""

import logging
from collections.abc import Sequence
from typing import TypeGuard
from urllib.parse import quote, urlsplit

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Match, Route

from myna.accounts.sign_in import passwords, sessions
from myna.accounts.throttle import SignInRefused
from myna.errors import CommandError, InvalidRequest, MethodNotAllowed, MynaError, NotFound
from myna.http.request_head import Receive, Scope, Send
from myna.http.responses import public_error
from myna.lib.telemetry import logs
from myna.office import forms, refill
from myna.office.forms import PASSWORD_FIELD, AlreadySent, Submission
from myna.office.page import Handler, Page
from myna.office.pages import ALL_PAGES
from myna.office.refill import Refill
from myna.office.render import LANGUAGES, N_, STATIC, preferred, renderers
from myna.office.visit import LANGUAGE, ROOT, Parts, Streamed, Visit
from myna.office.web_security import (
    FORM_COOKIE,
    RESULT_COOKIE,
    SESSION_COOKIE,
    Cookies,
    FormRate,
    check_same_origin,
    protect,
)
from myna.store.queries.sign_in import identity_of
from myna.store.transaction_queue import transactions_of

log = logging.getLogger(__name__)

STATIC_TYPES = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
ENDED_AND_KEPT = N_(
    "Your session has ended, so the form was not sent. Sign in: the page then has what you filled in, without"
    " secrets and files."
)
ENDED = N_("Your session has ended, so the form was not sent, and is not kept. Sign in and fill it in again.")


class Office:
    """The pages of one service."""

    def __init__(self, parts: Parts, pages: Sequence[Page] = ALL_PAGES) -> None:
        self._parts = parts
        self._routes = [(page, self._route(page)) for page in pages]
        self._renderers = renderers()
        self._https = parts.settings.base_url.startswith("https:")
        self._cookies = Cookies(self._https)
        self._rate = FormRate()

    def routes(self) -> list[Route]:
        """The routes of all pages and static files, and of all other requests below /office."""
        pages = [
            *(Route(f"{ROOT}/static/{name}", self._static) for name in STATIC),
            *(route for _, route in self._routes),
        ]
        return [
            Route("/", _to_office),
            Route("/favicon.ico", _favicon),
            *pages,
            Route(ROOT + "/{path:path}", _Others(self, pages)),
        ]

    def _route(self, page: Page) -> Route:
        async def endpoint(request: Request) -> Response:
            return await self.answer(page, request)

        return Route(ROOT + page.path, endpoint, methods=page.methods)

    async def answer(self, page: Page, request: Request) -> Response:
        """The page's response, or that of its error. Each has the security headers."""
        visit = self._visit(request)
        response = await self._answer(page, visit)
        self._set_session(visit, response)
        protect(response, self._https)
        return response

    def _set_session(self, visit: Visit, response: Response) -> None:
        """Hands the session's new token to the browser, if this request replaced it."""
        if visit.new_token and not self._cookies.is_set(response, SESSION_COOKIE):
            self._cookies.set(response, SESSION_COOKIE, visit.new_token)

    async def _static(self, request: Request) -> Response:
        name = request.url.path.rpartition("/")[2]
        content = STATIC[name]
        media_type = STATIC_TYPES[name[name.rindex(".") :]]
        response = Response(content, media_type=media_type)
        response.headers["Cache-Control"] = "public, max-age=31536000, immutable"
        protect(response, self._https)
        return response

    def _visit(self, request: Request) -> Visit:
        wanted = request.query_params.get(LANGUAGE, "")
        language = wanted if wanted in LANGUAGES else preferred(request.headers.get("accept-language", ""))
        return Visit(request, self._parts, self._renderers[language], self._cookies, None)

    async def _answer(self, page: Page, visit: Visit) -> Response:
        try:
            token = self._cookies.get(visit.request, SESSION_COOKIE)
            visit.session = await sessions.find(self._parts.db, token) if token else None
            if visit.session:
                visit.details.account_id = visit.session.account.id
                if visit.session.language in LANGUAGES:
                    visit.renderer = self._renderers[visit.session.language]
            with transactions_of(visit.owner):
                return await self._allowed(page, visit)
        except (MynaError, CommandError) as error:
            return self._error_page(visit, error)
        except Exception as error:
            return self._error_page(visit, public_error(error))

    async def _allowed(self, page: Page, visit: Visit) -> Response:
        """The page's response if the visitor may open it. Raises NotFound, Forbidden, InvalidRequest."""
        request = visit.request
        forms.check_text([request.url.path, *request.query_params.values()])
        if not page.anyone and visit.session is None:
            if request.method == "POST":
                return await self._answered(page, visit) or await self._ended(page, visit)
            return visit.redirect(f"/sign-in?next={quote(_address(request))}")
        if page.is_for_operators and not visit.account.operator:
            raise NotFound("There is no such page.")
        if request.method != "POST" or page.submit is None:
            return await self._result(visit) or await self._show(page, visit)
        await self._read(page, visit)
        if page.repeatable:
            return await self._recent(page, visit, None)
        form = self._submission(visit)
        response = await form.answer()
        if response is not None:
            return response
        try:
            response = await self._recent(page, visit, form)
        except AlreadySent:
            response = self._error_page(visit, InvalidRequest(forms.NO_RESULT))
        if response.status_code >= 400 and not form.claimed:
            # The other submission may be why: for a new account, that its name is taken.
            return await form.answer() or response
        return response

    async def _result(self, visit: Visit) -> Response | None:
        """The page of the form that was sent before, which is shown once, if this is its address."""
        request, once = visit.request, self._cookies.get(visit.request, RESULT_COOKIE)
        if not once or visit.session is None or request.method != "GET":
            return None
        address = _address(request).removeprefix(ROOT)
        response = await forms.shown(self._parts.db, once, address, visit.account.id)
        if response:
            self._cookies.delete(response, RESULT_COOKIE)
        return response

    async def _show(self, page: Page, visit: Visit) -> Response:
        """The page, with what was typed before the session ended, if it was here."""
        kept = refill.unpacked(self._cookies.get(visit.request, FORM_COOKIE)) if visit.session else None
        if kept is None or kept.page != _address(visit.request):
            return await _handler(page.show)(visit)
        visit.refill = kept.refill
        response = await _handler(page.show)(visit)
        self._cookies.delete(response, FORM_COOKIE)
        return response

    async def _ended(self, page: Page, visit: Visit) -> Response:
        """Leads to the sign-in, and from there back to the form. A file is not read for somebody unknown."""
        before, kept = self._page_before(visit), ""
        if not visit.request.headers.get("content-type", "").startswith("multipart/"):
            if not visit.form:
                await self._read(page, visit)
            kept = refill.packed(before, visit.request.url.path, visit.form)
        notice = ENDED_AND_KEPT if kept else ENDED
        response = visit.redirect(f"/sign-in?next={quote(before)}", notice)
        if kept:
            self._cookies.set(response, FORM_COOKIE, kept)
        return response

    def _page_before(self, visit: Visit) -> str:
        """The address of the page with the form that was sent: browsers name it in Referer."""
        try:
            parts = urlsplit(visit.request.headers.get("referer", ""))
        except ValueError:  # an invalid IPv6 address
            return ""
        if parts.path:
            return self._page_of(parts.path, f"?{parts.query}" if parts.query else "")
        return self._page_of(visit.request.url.path)

    def _page_of(self, path: str, query: str = "") -> str:
        """The address of the page at this path. A form that was refused is shown at an address that no GET
        has: then it is the next one above it."""
        while path.startswith(ROOT + "/"):
            if self._page_at(path):
                return path + query
            path, query = path.rpartition("/")[0], ""
        return ""

    def _page_at(self, path: str) -> tuple[Page, Scope] | None:
        """The page that a GET of this path shows."""
        scope = {"type": "http", "method": "GET", "path": path, "root_path": ""}
        for page, route in self._routes:
            match, found = route.matches(scope)
            if match is Match.FULL and page.show:
                return page, {**scope, **found}
        return None

    async def _form_again(self, visit: Visit, error: InvalidRequest | CommandError) -> Response | None:
        """The page with the refused form, filled in; None where no page has it."""
        url = visit.request.url
        own = self._page_of(url.path, f"?{url.query}" if url.query else "")
        for address in dict.fromkeys((self._page_before(visit), own)):
            if (response := await self._filled(visit, error, address)) is not None:
                return response
        return None

    async def _filled(
        self, visit: Visit, error: InvalidRequest | CommandError, address: str
    ) -> Response | None:
        """The page at this address with the refused form, filled in; None if it doesn't have the form."""
        found = self._page_at(address.partition("?")[0])
        if found is None or not (visit.session or found[0].anyone):
            return None
        page, scope = found
        if page.is_for_operators and not visit.account.operator:
            return None
        query = address.partition("?")[2].encode()
        request = Request({**visit.request.scope, **scope, "query_string": query})
        shown = Visit(request, self._parts, visit.renderer, self._cookies, visit.session)
        shown.refill = Refill(visit.request.url.path, visit.form, visit.said(error), error)
        try:
            response = await _handler(page.show)(shown)
        except (MynaError, CommandError):
            return None
        visit.details.error_type = _type_of(error)
        return response if response.status_code == 400 else None

    async def _read(self, page: Page, visit: Visit) -> None:
        """Reads the form. Raises Forbidden, InvalidRequest."""
        check_same_origin(visit.request, self._parts.settings.base_url)
        if visit.session:
            await self._rate.count(visit.account.id)
        timeout_s = self._parts.settings.body_timeout_s
        visit.form = await forms.read(visit.request, page.form_max_bytes, timeout_s)

    def _submission(self, visit: Visit) -> Submission:
        return Submission(self._parts.db, self._cookies, visit.request.url.path, visit.form)

    async def _answered(self, page: Page, visit: Visit) -> Response | None:
        """The answer to an earlier submission, which may have ended the session that sent this one too."""
        if page.repeatable or page.form_max_bytes > forms.FORM_MAX_BYTES:
            return None
        await self._read(page, visit)
        return await self._submission(visit).answer()

    async def _recent(self, page: Page, visit: Visit, form: Submission | None) -> Response:
        """Makes the change of the form, if the password is recent or is not asked for."""
        if not page.recent or (visit.session and visit.session.stepped_up):
            return await self._submit(page, visit, form)
        return await self._step_up(page, visit, form)

    async def _submit(self, page: Page, visit: Visit, form: Submission | None) -> Response:
        visit.submission = form
        try:
            response = await _handler(page.submit)(visit)
        except (MynaError, CommandError) as error:
            visit.submission = None
            again = await self._form_again(visit, error) if _is_refusal(error) else None
            response = again or self._error_page(visit, error)
        finally:
            visit.submission = None
        self._set_session(visit, response)
        return await form.keep(response, visit.account.id if visit.session else 0) if form else response

    async def _step_up(self, page: Page, visit: Visit, form: Submission | None) -> Response:
        """Asks for the password and has the form sent again with it, then submits the form."""
        plain = visit.form.get(PASSWORD_FIELD)
        error = ""
        if isinstance(plain, str) and plain:
            try:
                await self._verify(visit, plain)
            except SignInRefused as refused:
                error = visit.said(refused)
            else:
                return await self._submit(page, visit, form)
        fields = [
            (name, value)
            for name, value in visit.form.multi_items()
            if isinstance(value, str) and name != PASSWORD_FIELD and name not in page.secrets
        ]
        linked = self._parts.oidc and await identity_of(visit.db, visit.account.id)
        before = self._page_before(visit)
        response = visit.page(
            "confirm.html",
            fields=fields,
            secrets=[name for name in page.secrets if visit.form.get(name)],
            error=error,
            asks_password=not linked or await passwords.has_one(visit.db, visit.account.id),
            provider=self._parts.oidc.client.name if self._parts.oidc and linked else "",
            page_before=before,
        )
        if linked and (kept := refill.packed(before, visit.request.url.path, visit.form)):
            self._cookies.set(response, FORM_COOKIE, kept)
        return response

    async def _verify(self, visit: Visit, plain: str) -> None:
        """Verifies the password. The session gets a new token. Raises SignInRefused."""
        if visit.session is None:
            raise SignInRefused
        await passwords.confirm(visit.db, visit.account, plain, visit.address)
        visit.new_token = await sessions.verified(visit.db, visit.session)
        visit.session = await sessions.find(visit.db, visit.new_token)

    def _error_page(self, visit: Visit, error: MynaError | CommandError) -> Response:
        """The page of an error, with the request's id. Once a part of the response was streamed, the error is
        only logged, and the stream ends incomplete."""
        status = int(error.status) if isinstance(error, MynaError) else 400
        visit.details.error_type = _type_of(error)
        if visit.exchange.has_streamed:
            return Streamed()
        headers = error.headers if isinstance(error, MynaError) else {}
        response = visit.page(
            "error.html",
            status=status,
            message=visit.said(error),
            request_id=logs.request_id.get(),
            number=status,
        )
        response.headers.update(headers)
        return response


def _address(request: Request) -> str:
    """The path and the query."""
    return request.url.path + (f"?{request.url.query}" if request.url.query else "")


def _type_of(error: MynaError | CommandError) -> str:
    return error.type if isinstance(error, MynaError) else "command_error"


def _is_refusal(error: MynaError | CommandError) -> TypeGuard[InvalidRequest | CommandError]:
    """Whether another form may be accepted, rather than another size or speed of it."""
    return isinstance(error, CommandError) or type(error) is InvalidRequest


def _handler(handler: Handler | None) -> Handler:
    if handler is None:
        raise AssertionError("Starlette routes only the page's methods")
    return handler


class _Others:
    """Answers what is no page: a path that none has, or a method that its page does not have."""

    def __init__(self, office: Office, routes: Sequence[Route]) -> None:
        self._office = office
        self._routes = routes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        found = [route for route in self._routes if route.matches(scope)[0] is Match.PARTIAL]

        async def refuse(visit: Visit) -> Response:
            if found:
                allowed = sorted({name for route in found for name in route.methods or ()})
                raise MethodNotAllowed(visit.request.method, ", ".join(allowed))
            if scope["path"].endswith("/") and visit.request.method == "GET":
                return visit.redirect(scope["path"].removeprefix(ROOT).rstrip("/"))
            raise NotFound("There is no such page.")

        page = Page(scope["path"], show=refuse, anyone=True)
        response = await self._office.answer(page, Request(scope, receive))
        await response(scope, receive, send)


async def _to_office(request: Request) -> Response:
    return RedirectResponse(ROOT, 302)


async def _favicon(request: Request) -> Response:
    return Response(STATIC["logo.svg"], media_type="image/svg+xml")

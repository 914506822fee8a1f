"""Sign-in, the second factor, one-time links and sign-out."""

from urllib.parse import urlencode

from msgspec import Struct
from starlette.responses import Response

from myna.accounts.sign_in import links, second_factor, sessions
from myna.accounts.sign_in.throttle import SignInRefused
from myna.errors import CommandError
from myna.office.page import Page, Who
from myna.office.visit import LANGUAGE, ROOT, Visit
from myna.office.web_security import SESSION_COOKIE


class SignIn(Struct):
    """The form of the sign-in page."""

    name: str = ""
    password: str = ""


class Code(Struct):
    """A code of the second factor."""

    code: str = ""


class NewPassword(Struct):
    """The form of a one-time link."""

    token: str = ""
    name: str = ""
    password: str = ""


async def show_sign_in(visit: Visit, name: str = "", error: str = "") -> Response:
    """Asks for name and password."""
    if visit.session and not error:
        return visit.redirect("")
    return visit.page(
        "sign_in.html",
        status=400 if error else 200,
        name=name,
        error=error,
        provider=visit.parts.oidc.client.name if visit.parts.oidc else "",
        no_operator=await links.first_is_needed(visit.db),
        query=f"?{visit.request.url.query}" if visit.request.url.query else "",
    )


async def sign_in(visit: Visit) -> Response:
    """Opens a session; with a second factor it is pending until the code is given."""
    form = visit.fields(SignIn)
    try:
        token = await sessions.sign_in(visit.db, form.name, form.password, visit.address, visit.user_agent)
    except SignInRefused as refused:
        return await show_sign_in(visit, form.name, visit.said(refused))
    return await enter(visit, token, target_of(visit))


async def enter(visit: Visit, token: str, target: str) -> Response:
    """Sets the cookie, and asks for the second factor if the session is pending. It replaces the session of
    this browser, which ends."""
    if visit.session:
        await sessions.close(visit.db, visit.session)
    if await sessions.find_pending(visit.db, token):
        response = visit.redirect(f"/second-factor?{urlencode({'next': ROOT + target})}")
    else:
        response = visit.redirect(target)
    visit.cookies.set(response, SESSION_COOKIE, token)
    return response


def target_of(visit: Visit) -> str:
    """The page to open after the sign-in: the one that `next` names, if it is a page of the back office."""
    return inside(visit.parameter("next"))


def inside(wanted: str) -> str:
    """The path below /office of an address, "" for an address that is no page of the back office."""
    path = wanted.removeprefix(ROOT)
    ours = wanted == ROOT or (wanted.startswith(ROOT + "/") and "\\" not in wanted and wanted.isprintable())
    return path if ours else ""


async def show_second_factor(visit: Visit, error: str = "") -> Response:
    """Asks for a code of the second factor."""
    return visit.page("second_factor.html", status=400 if error else 200, error=error)


async def give_second_factor(visit: Visit) -> Response:
    """Completes a pending session, which gets a new token."""
    pending = visit.cookies.get(visit.request, SESSION_COOKIE)
    try:
        token = await second_factor.give(visit.db, pending, visit.fields(Code).code, visit.address)
    except SignInRefused as refused:
        return await show_second_factor(visit, visit.said(refused))
    response = visit.redirect(target_of(visit))
    visit.cookies.set(response, SESSION_COOKIE, token)
    return response


async def show_welcome(visit: Visit, error: str = "") -> Response:
    """Shows what the one-time link does, without using it up: mail programs open links too."""
    token = visit.fields(NewPassword).token or visit.parameter("token")
    link = await links.find(visit.db, token)
    if link is None:
        no_operator = await links.first_is_needed(visit.db)
        return visit.page("link_expired.html", status=410, no_operator=no_operator)
    name = link.account.name if link.account else visit.fields(NewPassword).name
    return visit.page(
        "welcome.html",
        status=400 if error else 200,
        token=token,
        purpose=link.purpose.value,
        name=name,
        error=error,
    )


async def welcome(visit: Visit) -> Response:
    """Uses the link: makes the account if it is the first one, sets the password, and signs in."""
    form = visit.fields(NewPassword)
    link = await links.find(visit.db, form.token)
    try:
        token = await links.consume(
            visit.db,
            form.token,
            form.password,
            address=visit.address,
            user_agent=visit.user_agent,
            new=links.NewAccount(form.name) if form.name else None,
        )
    except CommandError as error:
        return await show_welcome(visit, visit.said(error))
    is_first = link is not None and link.account is None
    return await enter(visit, token, "/start" if is_first else "")


async def sign_out(visit: Visit) -> Response:
    """Ends the session, and has the browser forget what it stored."""
    if visit.session:
        await sessions.close(visit.db, visit.session)
    response = visit.redirect(f"/sign-in?{LANGUAGE}={visit.renderer.language}")
    visit.cookies.delete(response, SESSION_COOKIE)
    response.headers["Clear-Site-Data"] = '"cache", "cookies", "storage"'
    return response


PAGES = [
    Page(path="/sign-in", show=show_sign_in, submit=sign_in, who=Who.ANYONE),
    Page(path="/second-factor", show=show_second_factor, submit=give_second_factor, who=Who.ANYONE),
    Page(path="/welcome", show=show_welcome, submit=welcome, who=Who.ANYONE),
    Page(path="/sign-out", submit=sign_out, who=Who.ANYONE),
]

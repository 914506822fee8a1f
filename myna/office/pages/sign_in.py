"""Sign-in by password and by OpenID Connect, the second factor, one-time links and sign-out.

Each flow of OpenID Connect begins with a form POST, so that another site can't begin it. The response is a
page that refreshes to the authorization endpoint. A redirect would not work: Chromium applies CSP's
`form-action` to every redirect that follows a form, including the provider's own. The callback is a
cross-site GET, so it has no same-origin check. The state and the cookie bind it to the browser that began the
attempt.
"""

import logging
from typing import Final
from urllib.parse import urlencode

from starlette.responses import Response

from myna.accounts.sign_in import links, second_factor, sessions
from myna.accounts.sign_in.oidc import identities
from myna.accounts.sign_in.oidc.flow import TOKEN, Answer, Finished, Oidc, Purpose
from myna.accounts.sign_in.oidc.identities import Identity
from myna.accounts.sign_in.oidc.provider import CALLBACK_PATH, Failure, OidcRefused
from myna.actions.accounts import SetIdentity
from myna.errors import CommandError, NotFound, Unavailable
from myna.office.page import Page
from myna.office.visit import LANGUAGE, ROOT, Visit
from myna.office.web_security import OIDC_COOKIE, SESSION_COOKIE


async def show_sign_in(visit: Visit) -> Response:
    """Asks for name and password."""
    if visit.session and not visit.refill:
        return visit.redirect("")
    return visit.page(
        "sign_in.html",
        provider=visit.parts.oidc.client.name if visit.parts.oidc else "",
        no_operator=await links.first_is_needed(visit.db),
        query=f"?{visit.request.url.query}" if visit.request.url.query else "",
    )


async def sign_in(visit: Visit) -> Response:
    """Opens a session; with a second factor it is pending until the code is given."""
    name, password = visit.typed("name"), visit.typed("password")
    token = await sessions.sign_in(visit.db, name, password, visit.address, visit.user_agent)
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


async def show_second_factor(visit: Visit) -> Response:
    """Asks for a code of the second factor."""
    return visit.page("second_factor.html")


async def complete_second_factor(visit: Visit) -> Response:
    """Completes a pending session, which gets a new token."""
    pending = visit.cookies.get(visit.request, SESSION_COOKIE)
    token = await second_factor.complete(visit.db, pending, visit.typed("code"), visit.address)
    response = visit.redirect(target_of(visit))
    visit.cookies.set(response, SESSION_COOKIE, token)
    return response


async def show_welcome(visit: Visit) -> Response:
    """Shows what the one-time link does, without using it up: mail programs open links too."""
    token = visit.parameter("token")
    link = await links.find(visit.db, token)
    if link is None:
        no_operator = await links.first_is_needed(visit.db)
        return visit.page("welcome.html", status=410, purpose="", no_operator=no_operator)
    name = link.account.name if link.account else ""
    return visit.page("welcome.html", token=token, purpose=link.purpose.value, name=name)


async def welcome(visit: Visit) -> Response:
    """Uses the link: makes the account if it is the first one, sets the password, and signs in."""
    token, name = visit.typed("token"), visit.typed("name")
    link = await links.find(visit.db, token)
    session = await links.consume(
        visit.db,
        token,
        visit.typed("password"),
        address=visit.address,
        user_agent=visit.user_agent,
        new=links.NewAccount(name) if name else None,
    )
    is_first = link is not None and link.account is None
    return await enter(visit, session, "/start" if is_first else "")


async def sign_out(visit: Visit) -> Response:
    """Ends the session, and has the browser forget what it stored."""
    if visit.session:
        await sessions.close(visit.db, visit.session)
    response = visit.redirect(f"/sign-in?{LANGUAGE}={visit.renderer.language}")
    visit.cookies.delete(response, SESSION_COOKIE)
    response.headers["Clear-Site-Data"] = '"cache", "cookies", "storage"'
    return response


log = logging.getLogger(__name__)

RETRY_AFTER_S: Final = 10
TARGET_MAX_CHARS: Final = 2000
"""A longer address is not stored: the start page opens instead."""
PARAMETERS: Final = ("state", "code", "error", "iss")


async def begin_sign_in(visit: Visit) -> Response:
    """Goes to the provider to sign in."""
    return await _begin(visit, Purpose.SIGN_IN, target_of(visit))


async def begin_link(visit: Visit) -> Response:
    """Goes to the provider to link the account."""
    return await _begin(visit, Purpose.LINK, "/me")


async def begin_confirm(visit: Visit) -> Response:
    """Redirects to the provider to authenticate again, and then to the page of the form that required it."""
    before = visit.form.get("page")
    return await _begin(visit, Purpose.CONFIRM, inside(before if isinstance(before, str) else ""))


async def callback(visit: Visit) -> Response:
    """The provider's answer: signs in, links or confirms, once."""
    browser = visit.cookies.get(visit.request, OIDC_COOKIE)
    try:
        finished = await _oidc(visit).finish(visit.db, _answer(visit), browser)
        response = await _finished(visit, finished)
    except OidcRefused as refused:
        raise _shown(visit, refused) from None
    return response


async def unlink(visit: Visit) -> Response:
    """Removes the link of the account."""
    session = visit.signed_in.token_hash
    await visit.perform(SetIdentity(name=visit.account.name, remove=True, session=session), own=True)
    return visit.redirect("/me", "The link is removed. All other sessions have ended.")


async def _begin(visit: Visit, purpose: Purpose, target: str) -> Response:
    """The page that opens the provider's. The browser has one token for its attempts in several tabs."""
    known = visit.cookies.get(visit.request, OIDC_COOKIE)
    browser = known if TOKEN.fullmatch(known) else sessions.new_token(sessions.OIDC_PREFIX)
    oidc = _oidc(visit)
    try:
        url = await oidc.begin(
            visit.db,
            purpose,
            browser=browser,
            session_id=0 if purpose is Purpose.SIGN_IN else visit.signed_in.id,
            target=target if len(target) <= TARGET_MAX_CHARS else "",
            address=visit.address,
        )
    except OidcRefused as refused:
        raise _shown(visit, refused) from None
    response = visit.page("oidc.html", url=url, provider=oidc.client.name)
    visit.cookies.set(response, OIDC_COOKIE, browser)
    return response


async def _finished(visit: Visit, finished: Finished) -> Response:
    """Completes the attempt by its purpose. Raises OidcRefused."""
    client = _oidc(visit).client
    identity = Identity(client.issuer, finished.claims.sub)
    if finished.purpose is Purpose.SIGN_IN:
        email = finished.claims.verified_email if client.link_by_email else ""
        token = await identities.sign_in(
            visit.db, identity, email=email, address=visit.address, user_agent=visit.user_agent
        )
        return await enter(visit, token, finished.target)
    session = visit.session
    if session is None or session.id != finished.session_id:
        raise OidcRefused(Failure.EXPIRED, "the attempt began in another session")
    if finished.purpose is Purpose.LINK:
        link = SetIdentity(name=visit.account.name, subject=identity.subject, session=session.token_hash)
        await visit.perform(link, own=True)
        return visit.redirect(finished.target, "The account is linked.")
    token = await identities.confirm(visit.db, session, identity)
    response = visit.redirect(finished.target, "Confirmed. Now send the form again.")
    visit.cookies.set(response, SESSION_COOKIE, token)
    return response


def _answer(visit: Visit) -> Answer:
    """The parameters of the callback. Raises OidcRefused for one that is there twice."""
    found = visit.request.query_params
    given = {name: found.getlist(name) for name in PARAMETERS if name in found}
    if any(len(values) > 1 for values in given.values()):
        raise OidcRefused(Failure.NOT_VALID, "a parameter of the callback is there twice")
    return Answer(**{name: values[0] for name, values in given.items()})


def _shown(visit: Visit, refused: OidcRefused) -> CommandError | Unavailable:
    """Logs the failure. Returns the error that the page shows."""
    account_id = visit.session.account.id if visit.session else 0
    log.warning("OpenID Connect from %s failed, account %d: %s", visit.address, account_id, refused)
    sentence = visit.text(refused.failure)
    if refused.failure is Failure.PROVIDER:
        return Unavailable(sentence, RETRY_AFTER_S)
    return CommandError(sentence)


def _oidc(visit: Visit) -> Oidc:
    """Raises NotFound on a site without a provider."""
    if visit.parts.oidc is None:
        raise NotFound("There is no such page.")
    return visit.parts.oidc


BEGINS: Final = "it opens the page of the provider, where an attempt ends once"


PAGES = [
    Page("/sign-in", show=show_sign_in, submit=sign_in, anyone=True),
    Page("/second-factor", show=show_second_factor, submit=complete_second_factor, anyone=True),
    Page("/welcome", show=show_welcome, submit=welcome, anyone=True),
    Page("/sign-out", submit=sign_out, anyone=True),
    Page("/sign-in/oidc", submit=begin_sign_in, anyone=True, repeatable=BEGINS),
    Page(CALLBACK_PATH.removeprefix(ROOT), show=callback, anyone=True),
    Page("/me/oidc", submit=begin_link, recent=True, repeatable=BEGINS),
    Page("/me/oidc/confirm", submit=begin_confirm, repeatable=BEGINS),
    Page("/me/oidc/remove", submit=unlink, recent=True),
]

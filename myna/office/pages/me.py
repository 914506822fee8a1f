"""One's own account: password, second factor, sessions, language, low balance."""

from typing import Annotated

import segno
from markupsafe import Markup
from msgspec import Meta, Struct
from starlette.responses import Response

from myna import activity
from myna.errors import CommandError, InvalidRequest
from myna.office.page import Page
from myna.office.visit import Visit
from myna.office.web_security import SESSION_COOKIE
from myna.sign_in import passwords, preferences, second_factor, sessions
from myna.sign_in.oidc import identities
from myna.sign_in.preferences import Changes
from myna.sign_in.second_factor import Enrolment
from myna.sign_in.sessions import Session


class Preferred(Struct):
    """The form of the preferences. `low_balance` in units."""

    language: str = ""
    low_balance: Annotated[int, Meta(ge=0)] = 0


class Password(Struct):
    """The form of a new password; the old one is asked for by the step-up."""

    password: str = ""


class Code(Struct):
    """A code of the app. `secret` is the one that the page showed with the form."""

    code: str = ""
    secret: str = ""

    def __repr__(self) -> str:
        return "Code()"


async def show(visit: Visit, error: str = "") -> Response:
    """Everything about the account that its holder decides."""
    session = _session(visit)
    identity = await identities.of_account(visit.db, visit.account.id)
    return visit.page(
        "me.html",
        status=400 if error else 200,
        error=error,
        preferred=await preferences.of_account(visit.db, visit.account.id),
        factor=await second_factor.of_account(visit.db, visit.account.id),
        sessions=await sessions.of_account(visit.db, visit.account.id),
        session_id=session.id,
        command_words=activity.words("account", "set", visit.account.name, language="zh", low_balance=100),
        provider=visit.parts.oidc.client.name if visit.parts.oidc else "",
        identity=identity,
        oidc_words=activity.words(
            "account",
            "oidc",
            visit.account.name,
            subject=None if identity else "SUBJECT",
            remove=identity is not None,
        ),
    )


async def prefer(visit: Visit) -> Response:
    """Changes the preferences."""
    try:
        form = visit.fields(Preferred)
        changes = Changes(language=form.language, low_balance=form.low_balance)
        await preferences.change(visit.db, visit.account, changes, visit.actor)
    except (CommandError, InvalidRequest) as error:
        return await show(visit, visit.said(error))
    return visit.redirect("/me", visit.text("Saved."))


async def change_password(visit: Visit) -> Response:
    """Sets a new password, which ends all sessions, and opens a new one here."""
    try:
        await passwords.set(visit.db, visit.account.id, visit.fields(Password).password, visit.actor)
        token = await sessions.open(visit.db, visit.account.id, visit.address, visit.user_agent)
    except CommandError as error:
        return await show(visit, visit.said(error))
    pending = await sessions.find_pending(visit.db, token) is not None
    notice = visit.text("The password is changed. All other sessions have ended.")
    response = visit.redirect("/second-factor" if pending else "/me", notice)
    visit.cookies.set(response, SESSION_COOKIE, token)
    return response


async def begin_second_factor(visit: Visit) -> Response:
    """Shows a new secret, to be confirmed by the first code."""
    try:
        enrolment = await second_factor.begin(visit.db, visit.account)
    except CommandError as error:
        return await show(visit, visit.said(error))
    return visit.result("/me", _enrol(visit, enrolment))


async def confirm_second_factor(visit: Visit) -> Response:
    """Turns the second factor on, and shows the recovery codes this once. After a wrong code the same secret
    can be confirmed by another."""
    form = visit.fields(Code)
    try:
        codes = await second_factor.confirm(visit.db, _session(visit), form.code, visit.actor)
    except CommandError as error:
        enrolment = await second_factor.unconfirmed(visit.db, visit.account, form.secret)
        said = visit.said(error)
        return _enrol(visit, enrolment, said) if enrolment else await show(visit, said)
    return visit.result("/me", visit.page("recovery_codes.html", codes=codes))


def _enrol(visit: Visit, enrolment: Enrolment, error: str = "") -> Response:
    """The secret as a QR code, and the form for the first code."""
    picture = segno.make(enrolment.uri).svg_inline(
        scale=5, border=2, light="#fff", dark="#000", omitsize=True
    )
    qr = Markup(picture)  # noqa: S704  made of modules, not of text
    status = 400 if error else 200
    return visit.page("second_factor_begin.html", status=status, enrolment=enrolment, qr=qr, error=error)


async def new_recovery_codes(visit: Visit) -> Response:
    """Replaces the recovery codes."""
    try:
        codes = await second_factor.new_codes(visit.db, _session(visit), visit.actor)
    except CommandError as error:
        return await show(visit, visit.said(error))
    return visit.result("/me", visit.page("recovery_codes.html", codes=codes))


async def remove_second_factor(visit: Visit) -> Response:
    """Turns the second factor off."""
    try:
        await second_factor.remove(visit.db, visit.account, visit.actor)
    except CommandError as error:
        return await show(visit, visit.said(error))
    return visit.redirect("/me", visit.text("The second factor is off."))


async def end_session(visit: Visit) -> Response:
    """Ends one session of the account."""
    try:
        await sessions.close_one(visit.db, visit.account.id, visit.number("id"))
    except CommandError as error:
        return await show(visit, visit.said(error))
    return visit.redirect("/me", visit.text("The session has ended."))


async def end_others(visit: Visit) -> Response:
    """Ends all sessions but this one."""
    await sessions.close_others(visit.db, _session(visit))
    return visit.redirect("/me", visit.text("All other sessions have ended."))


def _session(visit: Visit) -> Session:
    if visit.session is None:
        raise AssertionError("a page of an account has a session")
    return visit.session


PAGES = [
    Page(path="/me", show=show, submit=prefer),
    Page(path="/me/password", submit=change_password, recent=True),
    Page(path="/me/second-factor", submit=begin_second_factor, recent=True),
    Page(path="/me/second-factor/confirm", submit=confirm_second_factor, recent=True),
    Page(path="/me/second-factor/codes", submit=new_recovery_codes, recent=True),
    Page(path="/me/second-factor/remove", submit=remove_second_factor, recent=True),
    Page(path="/me/sessions/others", submit=end_others),
    Page(path="/me/sessions/{id:number}", submit=end_session),
]

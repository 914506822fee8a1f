"""One's own account: password, second factor, sessions, language, low balance."""

import segno
from markupsafe import Markup
from starlette.responses import Response

from myna.accounts.sign_in import passwords, second_factor, sessions
from myna.accounts.sign_in.second_factor import Enrolment
from myna.actions.accounts import (
    ConfirmSecondFactor,
    NewRecoveryCodes,
    RemoveSecondFactor,
    SetIdentity,
    SetPassword,
    SetPreferences,
    SignOut,
)
from myna.errors import CommandError
from myna.office.page import Page
from myna.office.render import N_
from myna.office.visit import Visit
from myna.office.web_security import SESSION_COOKIE
from myna.store.queries import accounts
from myna.store.queries import sessions as session_store
from myna.store.queries.sign_in import identity_of


async def show(visit: Visit) -> Response:
    """Everything about the account that its holder decides."""
    session = visit.signed_in
    identity = await identity_of(visit.db, visit.account.id)
    return visit.page(
        "me.html",
        preferred=await accounts.preferences_of(visit.db, visit.account.id),
        factor=await second_factor.of_account(visit.db, visit.account.id),
        sessions=await visit.read(session_store.of_account, account_id=visit.account.id),
        session_id=session.id,
        command_words=SetPreferences(name=visit.account.name, language="zh", low_balance=100).words,
        factor_words=RemoveSecondFactor(name=visit.account.name, remove=True).words,
        sessions_words=SignOut(name=visit.account.name).words,
        provider=visit.parts.oidc.client.name if visit.parts.oidc else "",
        identity=identity,
        oidc_words=SetIdentity(
            name=visit.account.name, subject=None if identity else "SUBJECT", remove=identity is not None
        ).words,
    )


async def prefer(visit: Visit) -> Response:
    """Changes the preferences."""
    given = {"language": visit.typed("language"), "low_balance": visit.typed("low_balance") or 0}
    await visit.perform(visit.fields(SetPreferences, name=visit.account.name, **given), own=True)
    return visit.redirect("/me", "Saved.")


async def change_password(visit: Visit) -> Response:
    """Sets a new password, which ends all sessions, and opens a new one here."""
    name, email = visit.account.name, visit.account.email
    hashed = await passwords.new_hash(visit.typed("password"), name=name, email=email)
    await visit.perform(SetPassword(name=name, password_hash=hashed), own=True)
    token = await sessions.open(visit.db, visit.account.id, visit.address, visit.user_agent)
    pending = await sessions.find_pending(visit.db, token) is not None
    notice = N_("The password is changed. All other sessions have ended.")
    response = visit.redirect("/second-factor" if pending else "/me", notice)
    visit.cookies.set(response, SESSION_COOKIE, token)
    return response


async def begin_second_factor(visit: Visit) -> Response:
    """Shows a new secret, to be confirmed by the first code."""
    enrolment = await second_factor.begin(visit.db, visit.account)
    return visit.result("/me", _enrol(visit, enrolment))


async def confirm_second_factor(visit: Visit) -> Response:
    """Turns the second factor on, and shows the recovery codes this once. After a wrong code the same secret
    can be confirmed by another."""
    name, session = visit.account.name, visit.signed_in.token_hash
    action = ConfirmSecondFactor(name=name, code=visit.typed("code"), session=session)
    try:
        codes = await visit.perform(action, own=True)
    except CommandError as error:
        enrolment = await second_factor.unconfirmed(visit.db, visit.account, visit.typed("secret"))
        if enrolment is None:
            raise
        return _enrol(visit, enrolment, visit.said(error))
    return visit.result("/me", visit.page("recovery_codes.html", codes=codes))


def _enrol(visit: Visit, enrolment: Enrolment, error: str = "") -> Response:
    """The secret as a QR code, and the form for the first code."""
    picture = segno.make(enrolment.uri).svg_inline(
        scale=5, border=2, light="#fff", dark="#000", omitsize=True
    )
    qr = Markup(picture)  # noqa: S704  made of modules, not of text
    return visit.page("second_factor_begin.html", enrolment=enrolment, qr=qr, error=error)


async def new_recovery_codes(visit: Visit) -> Response:
    """Replaces the recovery codes."""
    codes = await visit.perform(NewRecoveryCodes(name=visit.account.name), own=True)
    return visit.result("/me", visit.page("recovery_codes.html", codes=codes))


async def remove_second_factor(visit: Visit) -> Response:
    """Turns the second factor off."""
    await visit.perform(RemoveSecondFactor(name=visit.account.name, remove=True), own=True)
    return visit.redirect("/me", "The second factor is off.")


async def end_session(visit: Visit) -> Response:
    """Ends one session of the account."""
    await visit.perform(SignOut(name=visit.account.name, id=visit.number("id")), own=True)
    return visit.redirect("/me", "The session has ended.")


async def end_others(visit: Visit) -> Response:
    """Ends all sessions but this one."""
    session = visit.signed_in.token_hash
    await visit.perform(SignOut(name=visit.account.name, session=session), own=True)
    return visit.redirect("/me", "All other sessions have ended.")


PAGES = [
    Page("/me", show=show, submit=prefer),
    Page("/me/password", submit=change_password, recent=True),
    Page("/me/second-factor", submit=begin_second_factor, recent=True),
    Page("/me/second-factor/confirm", submit=confirm_second_factor, recent=True),
    Page("/me/second-factor/codes", submit=new_recovery_codes, recent=True),
    Page("/me/second-factor/remove", submit=remove_second_factor, recent=True),
    Page("/me/sessions/others", submit=end_others),
    Page("/me/sessions/{id:number}", submit=end_session),
]

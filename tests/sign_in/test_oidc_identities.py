"""Which account an identity signs in to, and what the session may do."""

import pyotp
import pytest

from myna.accounts.sign_in import passwords, second_factor, sessions
from myna.accounts.sign_in.oidc import identities
from myna.accounts.sign_in.oidc.identities import Identity
from myna.accounts.sign_in.oidc.provider import Failure
from myna.accounts.throttle import SignInRefused
from myna.actions.accounts import ConfirmSecondFactor, DisableAccount
from myna.errors import CommandError
from myna.store.queries.accounts import activity_page
from myna.store.queries.sign_in import identity_of
from tests.rig.actors import perform
from tests.sign_in.conftest import ADDRESS, PASSWORD, OidcSite, failure_of, person
from tests.store.fixtures import each_database

EMAIL = "Ann@example.org"


async def test_only_a_linked_identity_signs_in(site: OidcSite) -> None:
    ann = await person(site.books)
    assert await failure_of(site.sign_in()) is Failure.NOT_LINKED
    assert await failure_of(site.sign_in(EMAIL)) is Failure.NOT_LINKED
    await site.link(ann)
    assert (await site.session(await site.sign_in())).account.id == ann.id


@each_database
async def test_an_identity_is_linked_to_one_account(site: OidcSite) -> None:
    ann, bob = await person(site.books), await person(site.books, "bob")
    await site.link(ann)
    with pytest.raises(CommandError, match="linked to another account"):
        await site.link(bob)
    assert (await site.session(await site.sign_in())).account.id == ann.id
    assert await identity_of(site.books.db, bob.id) is None


async def test_a_verified_email_address_links_the_only_account_that_has_it_once(site: OidcSite) -> None:
    ann = await person(site.books, email=EMAIL)
    token = await site.sign_in(EMAIL.lower())
    assert (await site.session(token)).account.id == ann.id
    assert (await site.session(await site.sign_in())).account.id == ann.id
    (row,) = await activity_page(site.books.db, prefix="account oidc")
    assert (row.command, row.actor, row.address) == (
        "myna account oidc ann --subject person-1",
        "ann",
        ADDRESS,
    )


async def test_an_email_address_of_two_accounts_or_of_a_linked_one_links_nothing(site: OidcSite) -> None:
    ann = await person(site.books, email=EMAIL)
    await site.link(ann, "person-2")
    assert await failure_of(site.sign_in(EMAIL)) is Failure.NOT_LINKED
    shared = "both@example.org"
    await person(site.books, "bob", email=shared)
    await person(site.books, "eve", email=shared.upper())
    assert await failure_of(site.sign_in(shared)) is Failure.NOT_LINKED
    assert await failure_of(site.sign_in("\x00")) is Failure.NOT_LINKED


@each_database
async def test_an_email_address_that_only_looks_alike_links_and_signs_in_nobody(site: OidcSite) -> None:
    """PostgreSQL's `lower` maps the Kelvin sign to k and a dotted capital I to i."""
    await person(site.books, email="kim@example.org")
    for alike in ("\u212aim@example.org", "K\u0130M@example.org", "kim\u200b@example.org"):
        assert await failure_of(site.sign_in(alike)) is Failure.NOT_LINKED
        with pytest.raises(SignInRefused):
            await passwords.verify(site.books.db, alike, PASSWORD, ADDRESS)
    assert (await passwords.verify(site.books.db, "KIM@example.org", PASSWORD, ADDRESS)).account.name == "ann"


@each_database
async def test_an_email_address_does_not_link_again_what_was_unlinked(site: OidcSite) -> None:
    ann = await person(site.books, email=EMAIL)
    await site.sign_in(EMAIL)
    await site.unlink(ann)
    assert await failure_of(site.sign_in(EMAIL)) is Failure.NOT_LINKED
    await site.link(ann)
    assert (await site.session(await site.sign_in())).account.id == ann.id


async def test_another_identity_ends_the_sessions_of_the_one_before(site: OidcSite) -> None:
    ann = await person(site.books)
    await site.link(ann)
    other, own = await site.sign_in(), await site.sign_in()
    await site.link(ann, "person-2", session=(await site.session(own)).token_hash)
    assert await sessions.find(site.books.db, other) is None
    assert await sessions.find(site.books.db, own) is not None
    await site.link(ann)
    assert await sessions.find(site.books.db, own) is None


@pytest.mark.parametrize("email", ["", EMAIL])
async def test_a_disabled_account_does_not_sign_in(site: OidcSite, email: str) -> None:
    ann = await person(site.books, email=EMAIL)
    if not email:
        await site.link(ann)
    await perform(site.books.db, DisableAccount(name="ann", force=True))
    assert await failure_of(site.sign_in(email)) is Failure.NOT_LINKED


async def test_a_second_factor_is_still_asked_for(site: OidcSite) -> None:
    ann = await person(site.books)
    await site.link(ann)
    session = await site.session(await site.sign_in())
    enrolment = await second_factor.begin(site.books.db, ann)
    await site.books.stop_clock()
    ((now,),) = await site.books.sql("SELECT now_ms()")
    code = pyotp.TOTP(enrolment.secret).at(now // 1000)
    confirm = ConfirmSecondFactor(name="ann", code=code, session=session.token_hash)
    codes = await perform(site.books.db, confirm)
    token = await site.sign_in()
    assert await sessions.find(site.books.db, token) is None
    full = await second_factor.complete(site.books.db, token, codes[0], ADDRESS)
    assert not (await site.session(full)).stepped_up


async def test_a_sign_in_at_the_provider_is_no_recent_password(site: OidcSite) -> None:
    ann = await person(site.books)
    await site.link(ann)
    session = await site.session(await site.sign_in())
    assert not session.stepped_up
    other = Identity(site.provider.issuer, "person-2")
    confirming = identities.confirm(site.books.db, session, other)
    assert await failure_of(confirming) is Failure.OTHER_IDENTITY
    token = await identities.confirm(site.books.db, session, site.identity())
    assert (await site.session(token)).stepped_up


async def test_a_link_that_is_removed_ends_the_other_sessions(site: OidcSite) -> None:
    ann = await person(site.books)
    await site.link(ann)
    other, own = await site.sign_in(), await site.sign_in()
    await site.unlink(ann, await site.session(own))
    assert await sessions.find(site.books.db, other) is None
    assert await sessions.find(site.books.db, own) is not None
    assert await failure_of(site.sign_in()) is Failure.NOT_LINKED
    with pytest.raises(CommandError, match="not linked"):
        await site.unlink(ann)


async def test_an_operator_who_removes_a_link_ends_all_sessions(site: OidcSite) -> None:
    ann = await person(site.books)
    await site.link(ann)
    token = await site.sign_in()
    await site.unlink(ann)
    assert await sessions.find(site.books.db, token) is None
    commands = [row.command for row in await activity_page(site.books.db, prefix="account oidc")]
    assert commands == ["myna account oidc ann --remove", "myna account oidc ann --subject person-1"]


async def test_the_only_way_to_sign_in_is_not_removed_by_its_owner(site: OidcSite) -> None:
    ann = await person(site.books, password="")
    await site.link(ann)
    session = await site.session(await site.sign_in())
    with pytest.raises(CommandError, match="Set a password first"):
        await site.unlink(ann, session)
    assert await identity_of(site.books.db, ann.id) is not None


async def test_the_identity_is_issuer_and_subject(site: OidcSite) -> None:
    ann = await person(site.books)
    await site.link(ann, issuer="https://other.example")
    assert await failure_of(site.sign_in()) is Failure.NOT_LINKED
    await site.link(ann, "person-2")
    assert await failure_of(site.sign_in()) is Failure.NOT_LINKED

"""Passwords: which are accepted, and what verifying them tells."""

import asyncio
import contextlib
import threading
import time

import argon2
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from myna.accounts.sign_in import passwords
from myna.accounts.throttle import WRONG, WRONG_PASSWORD, SignInRefused, TooManyAttempts
from myna.actions.accounts import DisableAccount
from myna.errors import CommandError
from myna.store.queries.accounts import activity_page
from tests.http.cpu_time import cpu_s, reference
from tests.rig.actors import perform
from tests.rig.waiting import SOON_S, wait_until
from tests.sign_in.conftest import (
    ADDRESS,
    ELSEWHERE,
    FAST,
    OTHER_PASSWORD,
    PASSWORD,
    at_once,
    person,
    session_of,
    set_password,
    signed_in,
)
from tests.store.books import Books
from tests.store.fixtures import each_database

WEAK = argon2.PasswordHasher(time_cost=1, memory_cost=64, parallelism=1)
TODAYS = (argon2.Type.ID, 19456, 2, 1)
WORDS = st.lists(
    st.sampled_from(
        ["password", "2020-01-01", "qwerty", "aaaa", "ann", "@$!|0", "é", "\0", "🦜", " ", "1" * 9]
    ),
    max_size=20,
).map("".join)
TEXTS = st.text(max_size=140) | WORDS


def parameters(password_hash: str) -> tuple[argon2.Type, int, int, int]:
    found = argon2.extract_parameters(password_hash)
    return found.type, found.memory_cost, found.time_cost, found.parallelism


class WatchedHasher:
    """Remembers the parameters of each hash that is verified."""

    def __init__(self) -> None:
        self.verified: list[tuple[argon2.Type, int, int, int]] = []

    def verify(self, password_hash: str, plain: bytes) -> bool:
        self.verified.append(parameters(password_hash))
        return bool(FAST.verify(password_hash, plain))


class BlockedHasher:
    """Hashes nothing until the gate is opened. `begun` are the threads that hash."""

    def __init__(self) -> None:
        self.begun: list[int] = []
        self.gate = threading.Event()

    def hash(self, plain: bytes) -> str:
        self.begun.append(threading.get_ident())
        self.gate.wait(SOON_S)
        return plain.decode()


async def stored(books: Books) -> str:
    ((found,),) = await books.sql("SELECT hash FROM passwords")
    return str(found)


@pytest.mark.parametrize(
    ("plain", "reason"),
    [
        ("", "at least 12 characters"),
        ("elevenchars", "at least 12 characters"),
        ("x" * 129, "at most 128 characters"),
        ("password1234", "easy to guess"),
        ("123456789012", "easy to guess"),
        ("Password123!", "easy to guess"),
        ("aaaaaaaaaaaaaaaaaaaaaaaa", "easy to guess"),
        ("qwertyuiopas", "easy to guess"),
        ("mynamynamyna", "easy to guess"),
        ("annabelletoo", "easy to guess"),
        ("AnnabelleToo", "must not be the name"),
        ("annabelle.too@example.com", "must not be the name"),
    ],
)
async def test_a_password_is_refused_with_what_to_change(plain: str, reason: str) -> None:
    name = "annabelletoo" if reason == "must not be the name" else "annabelle"
    with pytest.raises(CommandError, match=reason):
        await passwords.check(plain, name=name, email="annabelle.too@example.com")


@settings(max_examples=40)
@given(plain=TEXTS, name=st.text(min_size=1, max_size=100), email=st.text(max_size=50))
def test_any_text_is_accepted_or_refused_with_a_sentence(plain: str, name: str, email: str) -> None:
    try:
        asyncio.run(passwords.check(plain, name=name, email=email))
    except CommandError as refused:
        assert str(refused).endswith(".")
        assert not plain.strip() or plain not in str(refused) or len(plain) < passwords.CHARS_MIN
    else:
        assert passwords.CHARS_MIN <= len(plain) <= passwords.CHARS_MAX


@pytest.mark.parametrize(
    "plain",
    [
        PASSWORD,
        "plum anchor velvet",
        "nodigitsorsigns" * 2,
        "       9 z   x     q!",
        "山川异域风月同天寄诸佛子",
        "🦜🌿 lantern 🎻🍐 9",
        "correct horse battery staple " * 4,
        "\ud800 plum anchor velvet",
    ],
)
async def test_a_password_of_any_characters_is_accepted_and_verified(books: Books, plain: str) -> None:
    ann = await person(books, password=plain)
    assert (await passwords.verify(books.db, "ann", plain, ADDRESS)).account == ann
    for other in (plain[:-1], plain + " ", plain.upper() if plain.upper() != plain else plain.lower() + "x"):
        with pytest.raises(SignInRefused):
            await passwords.verify(books.db, "ann", other, ADDRESS)


async def test_a_password_of_128_characters_counts_to_its_end(books: Books) -> None:
    plain = PASSWORD + "-" * (128 - len(PASSWORD))
    await person(books, password=plain)
    with pytest.raises(SignInRefused):
        await passwords.verify(books.db, "ann", plain[:-1] + "+", ADDRESS)
    assert await passwords.verify(books.db, "ann", plain, ADDRESS)


async def test_only_a_salted_argon2id_hash_is_stored(real_hashes: None, books: Books) -> None:
    await person(books)
    await person(books, "bob")
    hashes = [row[0] for row in await books.sql("SELECT hash FROM passwords")]
    assert len({*hashes}) == 2
    assert {parameters(one) for one in (*hashes, passwords.DUMMY_HASH)} == {TODAYS}
    assert not any(PASSWORD in one for one in hashes)


@each_database
async def test_a_hash_of_other_parameters_is_replaced_at_a_sign_in(real_hashes: None, books: Books) -> None:
    ann = await person(books)
    session = await signed_in(books)
    await books.sql("UPDATE passwords SET hash = $1", WEAK.hash(PASSWORD))
    with pytest.raises(SignInRefused):
        await passwords.verify(books.db, "ann", OTHER_PASSWORD, ADDRESS)
    assert parameters(await stored(books)) != TODAYS
    assert await signed_in(books)
    assert parameters(await stored(books)) == TODAYS
    assert (await passwords.verify(books.db, "ann", PASSWORD, ADDRESS)).account == ann
    await session_of(books, session)


async def test_reasons_have_the_same_words_and_work(books: Books, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else an attacker could find out which accounts exist."""
    await person(books)
    await person(books, "nopassword", password="")
    await person(books, "disabled")
    await perform(books.db, DisableAccount(name="disabled", force=True))
    names = [("ann", OTHER_PASSWORD), ("nobody", PASSWORD), ("nopassword", PASSWORD), ("disabled", PASSWORD)]
    names += [("", PASSWORD), ("ann", ""), ("ann", "x" * 100_000), ("\ud800", PASSWORD), ("\0", PASSWORD)]
    said, watched = [], WatchedHasher()
    monkeypatch.setattr(passwords, "HASHER", watched)
    for number, (name, plain) in enumerate(names):
        with pytest.raises(SignInRefused) as refused:
            await passwords.verify(books.db, name, plain, f"192.0.2.{number}")
        said.append((str(refused.value), refused.value.retry_after_s))
    assert {*said} == {(WRONG, 0)}
    assert watched.verified == [parameters(FAST.hash(PASSWORD))] * len(names)


async def test_a_person_signs_in_with_the_name_or_an_email_address_of_one_account(books: Books) -> None:
    ann = await person(books, email="Shared@example.com")
    assert (await passwords.verify(books.db, "shared@EXAMPLE.com", PASSWORD, ADDRESS)).account == ann
    bob = await person(books, "bob", email="shared@example.com", password=OTHER_PASSWORD)
    for plain in (PASSWORD, OTHER_PASSWORD):
        with pytest.raises(SignInRefused):
            await passwords.verify(books.db, "shared@example.com", plain, ADDRESS)
    assert (await passwords.verify(books.db, "bob", OTHER_PASSWORD, ADDRESS)).account == bob
    namesake = await person(books, "shared@example.com")
    assert (await passwords.verify(books.db, "shared@example.com", PASSWORD, ADDRESS)).account == namesake


async def test_accounts_without_an_email_address_are_not_found_by_an_empty_one(books: Books) -> None:
    await person(books)
    with pytest.raises(SignInRefused):
        await passwords.verify(books.db, "", PASSWORD, ADDRESS)


async def test_setting_a_password_is_recorded_without_it(books: Books) -> None:
    ann = await person(books)
    (row,) = await activity_page(books.db, limit=1)
    assert (row.account_id, row.actor) == (ann.id, "root")
    assert row.command == "myna account reset ann # a new password was set"
    await perform(books.db, DisableAccount(name="ann", force=True))
    with pytest.raises(CommandError, match="disabled"):
        await set_password(books, "ann", OTHER_PASSWORD)


async def test_at_most_two_passwords_are_hashed_at_once_and_a_limited_number_waits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    blocked = BlockedHasher()
    monkeypatch.setattr(passwords, "HASHER", blocked)
    tries = [asyncio.create_task(passwords.hash_of(PASSWORD)) for _ in range(passwords.WAITING_MAX + 3)]
    await asyncio.to_thread(wait_until, lambda: len(blocked.begun) == 2, SOON_S, "two are hashed")
    await asyncio.wait(tries[passwords.WAITING_MAX :])
    assert len(blocked.begun) == 2
    blocked.gate.set()
    done, failed = await at_once(tries)
    assert (len(done), [type(error) for error in failed]) == (passwords.WAITING_MAX, [TooManyAttempts] * 3)
    assert len({*blocked.begun}) == passwords.AT_ONCE == 2


async def test_an_account_leaves_places_to_others(books: Books, monkeypatch: pytest.MonkeyPatch) -> None:
    ann = await person(books)
    blocked = BlockedHasher()
    monkeypatch.setattr(passwords, "HASHER", blocked)
    many = passwords.SHARE_MAX + 2
    tries = [asyncio.create_task(passwords.hash_of(PASSWORD, name="ann")) for _ in range(many)]
    await asyncio.wait(tries[passwords.SHARE_MAX :])
    with pytest.raises(TooManyAttempts):
        await passwords.confirm(books.db, ann, PASSWORD, ADDRESS)
    tries += [asyncio.create_task(passwords.hash_of(PASSWORD, name="bob"))]
    await asyncio.to_thread(wait_until, lambda: len(blocked.begun) == 2, SOON_S, "two are hashed")
    blocked.gate.set()
    done, failed = await at_once(tries)
    assert (len(done), [type(error) for error in failed]) == (passwords.SHARE_MAX + 1, [TooManyAttempts] * 2)


async def test_a_confirmation_is_refused_and_throttled_apart_from_signing_in(books: Books) -> None:
    ann = await person(books)
    for _ in range(5):
        with pytest.raises(SignInRefused, match="name or the password"):
            await passwords.verify(books.db, "ann", OTHER_PASSWORD, ELSEWHERE)
    await passwords.confirm(books.db, ann, PASSWORD, ADDRESS)
    for _ in range(5):
        with pytest.raises(SignInRefused, match=WRONG_PASSWORD):
            await passwords.confirm(books.db, ann, OTHER_PASSWORD, ADDRESS)
    with pytest.raises(TooManyAttempts):
        await passwords.confirm(books.db, ann, PASSWORD, ADDRESS)


@pytest.mark.parametrize(
    "hostile", ["4@8({[<3691!|70$5+%2" * 2, "4ds|as1w$dp1ar5@$a4@a5dr5a!a1!45!sr!wpds", "1" * 40]
)
async def test_no_password_takes_long_to_score(hostile: str) -> None:
    def score(plain: str) -> None:
        with contextlib.suppress(CommandError):
            asyncio.run(passwords.check(plain, name="ann", email=""))

    await asyncio.to_thread(score, PASSWORD)  # loads the lists
    began = time.process_time()
    await asyncio.to_thread(score, hostile)
    assert time.process_time() - began < 5 * cpu_s(reference, None)

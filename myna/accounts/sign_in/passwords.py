"""Passwords: which are accepted, how they are hashed and verified.

The hash is argon2id with 19 MiB, 2 passes and 1 lane (OWASP Password Storage Cheat Sheet). It takes about
20 ms and runs in threads, at most AT_ONCE at a time. A password is hashed exactly as it was entered.
"""

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Lock
from typing import Final, TypeVar

import argon2
from argon2.exceptions import InvalidHashError, VerificationError

from myna.accounts import throttle
from myna.accounts.throttle import WRONG_PASSWORD, SignInRefused, TooManyAttempts
from myna.errors import CommandError
from myna.lib.net import client_network
from myna.lib.shares import Shares
from myna.store.database import Database, Queries, Transaction
from myna.store.queries import sessions, sign_in
from myna.store.queries.accounts import AccountRow

T = TypeVar("T")

log = logging.getLogger(__name__)

CHARS_MIN: Final = 12
CHARS_MAX: Final = 128
"""A longer one is refused and not cut: hashing must have a limit."""
SITE_WORDS: Final = ("myna",)
"""Words that an attacker tries first here; the account's name and e-mail address count too."""
SCORE_MIN: Final = 3
"""Of zxcvbn: over 10^8 guesses."""
SCORED_CHARS: Final = 40
"""zxcvbn sees no more: its time grows faster than the length, to a second for 128 characters."""
SCORED_SIGNS: Final = 7
"""Nor more different signs that may stand for letters: it tries all their meanings, for a second with 20."""
_SIGNS: Final = frozenset("4@8({[<3691!|70$5+%2")
_OTHER_SIGN: Final = "~"
AT_ONCE: Final = 2
WAITING_MAX: Final = 32
"""More sign-ins at once are refused: each one uses 19 MiB and a core."""
SHARE_MAX: Final = 24
"""Of these, for one account, or one address before the sign-in."""
_RETRY_MS = 2_000
MEMORY_KIB: Final = 19 * 1024
PASSES: Final = 2
LANES: Final = 1
DUMMY_HASH: Final = f"$argon2id$v=19$m={MEMORY_KIB},t={PASSES},p={LANES}${'A' * 22}${'A' * 43}"
"""The hash of no known password. It is verified where there is none, so that both take as long."""

HASHER: Final = argon2.PasswordHasher(time_cost=PASSES, memory_cost=MEMORY_KIB, parallelism=LANES)


_threads = ThreadPoolExecutor(AT_ONCE, thread_name_prefix="password")
_places = Shares[str](WAITING_MAX, SHARE_MAX, lambda: TooManyAttempts(_RETRY_MS))
_zxcvbn_lock = Lock()
"""zxcvbn stores the words of a call in a global."""


async def check(plain: str, *, name: str, email: str) -> None:
    """Checks a new password for the account of this name. Raises CommandError with what to change."""
    if len(plain) < CHARS_MIN:
        raise CommandError("A password has at least {chars_min} characters.", "password", chars_min=CHARS_MIN)
    if len(plain) > CHARS_MAX:
        raise CommandError("A password has at most {chars_max} characters.", "password", chars_max=CHARS_MAX)
    own = {word.casefold() for word in (name, email, email.partition("@")[0]) if word}
    if plain.casefold() in own:
        raise CommandError(
            "A password must not be the name or the e-mail address; choose another one.", "password"
        )
    if await _in_thread(lambda: _score(plain, sorted(own)), f"account {name}") < SCORE_MIN:
        raise CommandError(
            "This password is easy to guess; use several words that have nothing in common.", "password"
        )


async def hash_of(plain: str, *, name: str = "") -> str:
    """The argon2id hash of a password of the account of this name, with a new salt."""
    return await _in_thread(lambda: HASHER.hash(_encoded(plain)), f"account {name}" if name else "")


async def new_hash(plain: str, *, name: str, email: str) -> str:
    """The hash of a new password for the account of this name. Raises CommandError with what to change."""
    await check(plain, name=name, email=email)
    return await hash_of(plain, name=name)


async def replace(connection: Transaction, account_id: int, password_hash: str) -> None:
    """Sets the password of an account that the transaction has locked. Ends all its sessions and links."""
    current = await sign_in.password_of(connection, account_id)
    if current is None or current.account.disabled_at:
        raise CommandError("The account is disabled; ask the operator.")
    await sign_in.put_password(connection, account_id, password_hash)
    await sessions.delete_all(connection, account_id)
    await sign_in.delete_links(connection, account_id)


async def verify(db: Database, name_or_email: str, plain: str, address: str) -> sign_in.Candidate:
    """The enabled account of this name, or of this e-mail address, if `plain` is its password, with the hash
    that matched.

    Raises SignInRefused with the same words and after the same work for every reason. To open a session use
    `sessions.sign_in`, which refuses a password that is changed meanwhile.
    """
    holder = client_network(address)
    _check_waiting(holder)
    found = await sign_in.candidate(db, name_or_email)
    account = found.account if found else None
    subjects = await throttle.of_sign_in(db, account.id if account else None, name_or_email, address)
    await throttle.begin(db, subjects)
    matches = await _matches(found.hash if found else "", plain, holder)
    if found is None or not matches or found.account.disabled_at:
        log.warning("a sign-in from %s failed, account %d", address, account.id if account else 0)
        raise SignInRefused
    await throttle.succeeded(db, subjects)
    return await _rehashed(db, found, plain)


async def confirm(db: Database, account: AccountRow, plain: str, address: str) -> None:
    """Verifies the password of a person who is signed in. Raises SignInRefused.

    Its failures are counted apart from those of signing in, which others can cause.
    """
    holder = f"account {account.name}"
    _check_waiting(holder)
    subjects = throttle.of_account("confirm", account.id)
    await throttle.begin(db, subjects)
    found = await sign_in.password_of(db, account.id)
    if not await _matches(found.hash if found else "", plain, holder):
        log.warning("a confirmation of the password from %s failed, account %d", address, account.id)
        raise SignInRefused(WRONG_PASSWORD)
    await throttle.succeeded(db, subjects)


async def has_one(db: Queries, account_id: int) -> bool:
    """Whether the account has a password."""
    found = await sign_in.password_of(db, account_id)
    return found is not None and bool(found.hash)


def _check_waiting(holder: str) -> None:
    """Raises TooManyAttempts if too much work on passwords waits, of all or of this holder."""
    with _places.place(holder):
        pass


async def _in_thread(work: Callable[[], T], holder: str) -> T:
    with _places.place(holder):
        return await asyncio.get_running_loop().run_in_executor(_threads, work)


async def _matches(password_hash: str, plain: str, holder: str) -> bool:
    """Whether it is the password. Takes as long if `password_hash` is empty."""
    matches = await _in_thread(lambda: _verified(password_hash or DUMMY_HASH, plain), holder)
    return matches and bool(password_hash)


async def _rehashed(db: Database, found: sign_in.Candidate, plain: str) -> sign_in.Candidate:
    """Hashes the verified password again if its hash has other parameters than today's."""
    if not HASHER.check_needs_rehash(found.hash):
        return found
    after = await hash_of(plain, name=found.account.name)
    await db.transaction(lambda connection: sign_in.rehash(connection, found.account.id, found.hash, after))
    return sign_in.Candidate(found.account, after)


def _verified(password_hash: str, plain: str) -> bool:
    try:
        return HASHER.verify(password_hash, _encoded(plain if len(plain) <= CHARS_MAX else ""))
    except (VerificationError, InvalidHashError):
        return False


def _encoded(plain: str) -> bytes:
    return plain.encode(errors="surrogatepass")


def _score(plain: str, own: list[str]) -> int:
    """The score of zxcvbn, 0 to 4. Its lists take 14 MB and 0.2 s to load: only who sets a password needs
    them."""
    import zxcvbn

    with _zxcvbn_lock:
        return int(zxcvbn.zxcvbn(_scored(plain), [*own, *SITE_WORDS])["score"])


def _scored(plain: str) -> str:
    """What zxcvbn sees of a password: after SCORED_SIGNS different signs it sees others as _OTHER_SIGN."""
    seen = list(dict.fromkeys(sign for sign in plain[:SCORED_CHARS] if sign in _SIGNS))
    return plain[:SCORED_CHARS].translate({ord(sign): _OTHER_SIGN for sign in seen[SCORED_SIGNS:]})

"""Tokens of sessions and links: 256 random bits, of which only the SHA-256 is stored; refused sign-ins."""

import hashlib
import math
import secrets
from typing import Any

from myna.errors import CommandError

SESSION_PREFIX = "mynasession_"
LINK_PREFIX = "mynalink_"
OIDC_PREFIX = "mynaoidc_"
"""By its prefix a token is masked in logs."""
_BYTES = 32


def new(prefix: str) -> str:
    """A new token."""
    return prefix + secrets.token_hex(_BYTES)


def hash_of(token: str) -> bytes:
    """The SHA-256 of a token."""
    return hashlib.sha256(token.encode(errors="surrogatepass")).digest()


WRONG = "The name or the password is wrong."
WRONG_PASSWORD = "The password is wrong."  # noqa: S105  no password
WRONG_CODE = "The code is wrong or was used already."
"""For a person who has shown the account's password or a session."""


class SignInRefused(CommandError):
    """The sign-in is refused. `retry_after_s` is 0 unless the reason is that there were too many attempts."""

    def __init__(self, sentence: str = WRONG, retry_after_s: int = 0, **values: Any) -> None:
        super().__init__(sentence, **values)
        self.retry_after_s = retry_after_s


class TooManyAttempts(SignInRefused):
    """There were too many attempts; another one is possible in `wait_ms`."""

    def __init__(self, wait_ms: int) -> None:
        seconds = max(1, math.ceil(wait_ms / 1000))
        super().__init__(
            "There were too many attempts; try again in {seconds} second."
            if seconds == 1
            else "There were too many attempts; try again in {seconds} seconds.",
            seconds,
            seconds=seconds,
        )

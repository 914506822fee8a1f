"""Tokens of sessions and links: 256 random bits, of which only the SHA-256 is stored."""

import hashlib
import secrets

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

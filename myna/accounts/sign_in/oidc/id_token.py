"""Checks an ID token (OpenID Connect Core 1.0, 3.1.3.7).

joserfc verifies the signature, with a key of the provider that fits the header. joserfc is an extra, which a
site without a provider does not import.
"""

import base64
import hmac
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import msgspec
from msgspec import Struct

from myna.accounts.sign_in.oidc.provider import Failure, Key, OidcRefused

if TYPE_CHECKING:
    from joserfc.jwk import ECKey, OKPKey, RSAKey

KEY_TYPES: Final = {"RS256": "RSA", "PS256": "RSA", "ES256": "EC", "EdDSA": "OKP"}
"""The accepted algorithms, all of them asymmetric, with the type of their keys."""
SKEW_S: Final = 60
"""How far the provider's clock may differ."""
ISSUED_MAX_S: Final = 600
"""A token was issued at most this long ago."""
TOKEN_MAX_CHARS: Final = 16 * 1024
SUBJECT_MAX_CHARS: Final = 255
RSA_MIN_BITS: Final = 2048
_PUBLIC = frozenset({"kty", "n", "e", "crv", "x", "y"})


class Expected(Struct, frozen=True):
    """The expected claims. Times in Unix s; `authenticated_after` is when a confirmation began, or None."""

    issuer: str
    client_id: str
    nonce: str
    now: float
    authenticated_after: float | None = None

    def __repr__(self) -> str:
        return f"Expected({self.issuer!r})"


class Claims(Struct, frozen=True):
    """The claims of a token that are used. Times in Unix s."""

    iss: str
    sub: str
    aud: str | list[str]
    exp: float
    iat: float
    nonce: str = ""
    azp: str | None = None
    nbf: float | None = None
    auth_time: float | None = None
    email: object = None
    email_verified: object = None

    @property
    def verified_email(self) -> str:
        """The e-mail address that the provider has verified, "" without one. Some providers, such as Amazon
        Cognito, send `email_verified` as the string "true"."""
        verified = self.email_verified is True or self.email_verified == "true"
        return self.email if isinstance(self.email, str) and verified else ""

    def __repr__(self) -> str:
        return f"Claims({self.iss!r})"


class UnknownKey(OidcRefused):
    """No key of the set has signed the token; newer keys may."""

    def __init__(self, detail: str = "the ID token is signed with an unknown key") -> None:
        super().__init__(Failure.NOT_VALID, detail)


class _Header(Struct):
    alg: str
    kid: str | None = None
    crit: object = None


_header_decoder = msgspec.json.Decoder(_Header)
_claims_decoder = msgspec.json.Decoder(Claims)


def verify(token: str, keys: Sequence[Key], expected: Expected) -> Claims:
    """The claims of a token that passes all checks. Raises OidcRefused; UnknownKey if newer keys may help."""
    header = _header_of(token)
    if header.alg not in KEY_TYPES:
        raise _refused("the ID token has an algorithm that is not accepted")
    if header.crit is not None:
        raise _refused("the ID token has critical headers")
    payload = _signed_payload(token, header.alg, _key_for(header, keys))
    try:
        claims = _claims_decoder.decode(payload)
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise _refused("the claims of the ID token are malformed or incomplete") from None
    _check_origin(claims, expected)
    _check_times(claims, expected)
    return claims


def is_subject(text: str) -> bool:
    """Whether it can be the subject of a token."""
    return 0 < len(text) <= SUBJECT_MAX_CHARS and text.isascii() and text.isprintable()


def _check_origin(claims: Claims, expected: Expected) -> None:
    """By whom, for whom, and for which attempt."""
    if claims.iss != expected.issuer:
        raise _refused("the ID token is of another issuer")
    audience = [claims.aud] if isinstance(claims.aud, str) else claims.aud
    if expected.client_id not in audience:
        raise _refused("the ID token is for another client")
    if len(audience) > 1 and claims.azp is None:
        raise _refused("the ID token is for several clients and names no authorized party")
    if claims.azp is not None and claims.azp != expected.client_id:
        raise _refused("the ID token was issued to another party")
    if not hmac.compare_digest(claims.nonce.encode(errors="surrogatepass"), expected.nonce.encode()):
        raise _refused("the ID token has another nonce")
    if not is_subject(claims.sub):
        raise _refused("the subject of the ID token is not 1 to 255 printable ASCII characters")


def _check_times(claims: Claims, expected: Expected) -> None:
    now = expected.now
    if claims.exp <= now - SKEW_S:
        raise _refused("the ID token has expired")
    if not now - ISSUED_MAX_S - SKEW_S < claims.iat <= now + SKEW_S:
        raise _refused("the ID token was not issued just now")
    if claims.nbf is not None and claims.nbf > now + SKEW_S:
        raise _refused("the ID token is not valid yet")
    after = expected.authenticated_after
    if after is None:
        return
    if claims.auth_time is None or not after - SKEW_S <= claims.auth_time <= now + SKEW_S:
        raise _refused("the provider did not authenticate the person again")


def _header_of(token: str) -> _Header:
    encoded = token.partition(".")[0]
    if len(token) > TOKEN_MAX_CHARS or not token.isascii() or token.count(".") != 2:
        raise _refused("the ID token is too long or not a signed JWT")
    try:
        return _header_decoder.decode(base64.urlsafe_b64decode(encoded + "=" * (-len(encoded) % 4)))
    except (msgspec.DecodeError, ValueError):
        raise _refused("the header of the ID token is malformed") from None


def _key_for(header: _Header, keys: Sequence[Key]) -> "RSAKey | ECKey | OKPKey":
    """The only key that fits the header; a damaged one beside it does not count. Raises OidcRefused."""
    fitting = [
        key
        for key in keys
        if key.get("kty") == KEY_TYPES[header.alg]
        and key.get("use", "sig") == "sig"
        and key.get("alg", header.alg) == header.alg
        and (header.kid is None or key.get("kid") == header.kid)
    ]
    whole = [public for public in map(_public, fitting) if public is not None]
    if not whole:
        raise UnknownKey
    if len(whole) > 1:
        raise _refused("several keys of the provider fit the ID token")
    return whole[0]


def _public(key: Key) -> "RSAKey | ECKey | OKPKey | None":
    """The public key; None if it is damaged."""
    from joserfc import jwk
    from joserfc.errors import JoseError, SecurityWarning

    try:
        with warnings.catch_warnings():  # of short keys, which are refused when they are used
            warnings.simplefilter("ignore", SecurityWarning)
            found = jwk.import_key({name: str(key[name]) for name in _PUBLIC & key.keys()})
            found.raw_value  # noqa: B018  parsed here, where a damaged key is skipped
    except (JoseError, ValueError, TypeError, KeyError):
        return None
    return found if isinstance(found, jwk.RSAKey | jwk.ECKey | jwk.OKPKey) else None


def _signed_payload(token: str, algorithm: str, key: "RSAKey | ECKey | OKPKey") -> bytes:
    """The payload, if the key has signed it. Raises OidcRefused; UnknownKey also for a wrong signature, since
    a provider may publish a new key under the id of the old one."""
    from joserfc import jwk, jws
    from joserfc.errors import JoseError, SecurityWarning

    if isinstance(key, jwk.RSAKey) and key.raw_value.key_size < RSA_MIN_BITS:
        raise _refused(f"the provider's RSA key has less than {RSA_MIN_BITS} bits")
    try:
        with warnings.catch_warnings():  # joserfc prefers "Ed25519" to "EdDSA", which providers use
            warnings.simplefilter("ignore", SecurityWarning)
            return jws.deserialize_compact(token, key, algorithms=[algorithm]).payload
    except (JoseError, ValueError, TypeError, KeyError):
        raise UnknownKey("the signature of the ID token is wrong") from None


def _refused(detail: str) -> OidcRefused:
    return OidcRefused(Failure.NOT_VALID, detail)

"""Why a sign-in by OpenID Connect failed."""

from enum import Enum, auto


class Failure(Enum):
    """The reason of a refusal, which selects the message."""

    PROVIDER = auto()
    """The provider does not answer, or not as the specifications say."""
    NOT_VALID = auto()
    """The answer fails a check."""
    EXPIRED = auto()
    """The attempt was used, has expired, or began in another browser or session."""
    CANCELLED = auto()
    """The provider sent the person back without a code."""
    TOO_MANY = auto()
    """Too many sign-ins began at this address."""
    NOT_LINKED = auto()
    """No account that may sign in is linked to the identity."""
    OTHER_IDENTITY = auto()
    """A confirmation came from an identity that isn't the account's."""


class OidcRefused(Exception):
    """Nothing was signed in or changed. `str()` is the detail for the log, without secrets."""

    def __init__(self, failure: Failure, detail: str) -> None:
        super().__init__(detail)
        self.failure = failure

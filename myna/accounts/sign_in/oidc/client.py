"""The settings of sign-in by OpenID Connect, as the flow uses them."""

import stat
from pathlib import Path
from typing import Final

from msgspec import Struct

from myna.errors import ConfigError
from myna.settings import Settings

CALLBACK_PATH: Final = "/office/sign-in/oidc/callback"
SECRET_MAX_BYTES: Final = 4096


class Client(Struct, frozen=True):
    """This site as the provider knows it. `secret` is empty for a public client."""

    issuer: str
    client_id: str
    secret: str
    name: str
    scopes: str
    link_by_email: bool
    redirect_uri: str

    def __repr__(self) -> str:
        return f"Client({self.issuer!r}, {self.client_id!r})"


def client_of(settings: Settings) -> Client | None:
    """None without an issuer. Raises ConfigError if the extra is missing or the file of the secret can't be
    used."""
    if not settings.oidc_issuer:
        return None
    try:
        from joserfc import jwk, jws  # noqa: F401  at startup: it takes 0.2 s, which would delay streams
    except ImportError:
        raise ConfigError(
            "MYNA_OIDC_ISSUER: needs the extra oidc; 'make setup-extras' installs it."
        ) from None
    file = settings.oidc_client_secret_file
    return Client(
        issuer=settings.oidc_issuer,
        client_id=settings.oidc_client_id,
        secret=_secret_in(Path(file)) if file else settings.oidc_client_secret,
        name=settings.oidc_name,
        scopes=settings.oidc_scopes,
        link_by_email=settings.oidc_link_by_email == "on",
        redirect_uri=settings.base_url + CALLBACK_PATH,
    )


def _secret_in(path: Path) -> str:
    label = "MYNA_OIDC_CLIENT_SECRET_FILE"
    try:
        with path.open("rb") as file:
            mode = stat.S_IMODE(path.stat().st_mode)
            content = file.read(SECRET_MAX_BYTES + 1)
    except OSError as error:
        raise ConfigError(f"{label}: {path} can't be read: {error.strerror}.") from None
    if mode & 0o077:
        raise ConfigError(f"{label}: {path} has the mode {mode:04o}; it must be 0600.")
    secret = content.decode("ascii", errors="replace").strip()
    if not secret or len(content) > SECRET_MAX_BYTES or not secret.isprintable() or not secret.isascii():
        raise ConfigError(f"{label}: {path} must have one line of printable ASCII.")
    return secret

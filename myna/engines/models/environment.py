"""The environment of the programs that fetch models."""

from collections.abc import Mapping
from typing import Final

from myna.lib.sandbox import child_environ

_PASSED_ON: Final = frozenset(
    (
        "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "SSL_CERT_FILE", "SSL_CERT_DIR",
        "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "NODE_EXTRA_CA_CERTS", "NODE_AUTH_TOKEN", "NPM_TOKEN",
        "NETRC", "XDG_CONFIG_HOME", "XDG_CONFIG_DIRS", "XDG_CACHE_HOME", "USER", "LOGNAME",
    )
)  # fmt: skip
_PASSED_ON_PREFIXES: Final = ("PIP_", "NPM_CONFIG_")


def client_environ(environ: Mapping[str, str]) -> dict[str, str]:
    """The variables that pip and npm get, and the command that runs them for the back office: those of every
    child, their own configuration, and what says how to reach the network. No variable of Myna's, no key of
    a channel."""
    ours = {
        name: value
        for name, value in environ.items()
        if name.upper() in _PASSED_ON or name.upper().startswith(_PASSED_ON_PREFIXES)
    }
    return child_environ(environ) | ours

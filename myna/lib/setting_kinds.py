"""What a setting declares: its meaning, and the form of a valid value; where a file of settings is wrong."""

import re
import tomllib
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Final

from msgspec import Struct

from myna.errors import ConfigError
from myna.lib.net import are_networks, is_base_url, is_database_url, is_origin, is_page_origin, is_secure

IN_FOLDER: Final = "folder"
"""The storage in the data folder."""


class Setting(Struct, frozen=True):
    """The meaning of a setting. For a string also the valid values, and `requirement`, which the error of
    another value names. A secret is masked wherever settings are shown."""

    meaning: str
    valid: Callable[[str], bool] = lambda value: True
    requirement: str = ""
    secret: bool = False


def not_blank(meaning: str) -> Setting:
    """A text that is not blank."""
    return Setting(meaning, lambda value: bool(value.strip()), "must not be blank")


def word(meaning: str, *words: str) -> Setting:
    """One of a few words."""
    return Setting(meaning, lambda value: value in words, f"must be {', '.join(words[:-1])} or {words[-1]}")


def secret(meaning: str) -> Setting:
    """A secret that is sent in a header."""

    def fits_a_header(value: str) -> bool:
        return value.isascii() and " " not in value

    return Setting(meaning, fits_a_header, "contains a character that can't be sent in a header", secret=True)


def origin(meaning: str) -> Setting:
    """The origin of a URL, or nothing."""
    requirement = "must be http://HOST or https://HOST, with a port or without"
    return Setting(meaning, lambda value: not value or is_origin(value), requirement)


def origins(meaning: str) -> Setting:
    """Origins, separated by commas."""
    requirement = (
        "must be http://HOST or https://HOST, with a port or without, https://*.HOST, APP://NAME or null,"
        " several separated by commas"
    )
    return Setting(meaning, lambda value: all(map(is_page_origin, listed(value))), requirement)


def networks(meaning: str) -> Setting:
    """Addresses and networks, separated by commas."""
    requirement = "must be addresses or networks such as 10.0.0.0/8, several separated by commas"
    return Setting(meaning, are_networks, requirement)


def issuer(meaning: str) -> Setting:
    """The issuer of an OpenID Connect provider, or nothing. Only a provider on this machine may use http."""

    def is_issuer(value: str) -> bool:
        return not value or (is_secure(value) and "@" not in value)

    return Setting(meaning, is_issuer, "must be https://… without a query, or http:// on this machine")


def scopes(meaning: str) -> Setting:
    """Scopes of OAuth with `openid` among them."""

    def are_scopes(value: str) -> bool:
        parts = value.split(" ")
        return "openid" in parts and all(map(re.compile(r"[!#-\[\]-~]+").fullmatch, parts))

    return Setting(meaning, are_scopes, "must be words separated by single spaces, with openid among them")


def base_url(meaning: str, *, or_one_of: tuple[str, ...]) -> Setting:
    """A URL to which paths are added, or one of some words."""
    words = ", ".join(word for word in or_one_of if word)
    requirement = f"must be {words}, http://… or https://…, without a query"
    return Setting(meaning, lambda value: value in or_one_of or is_base_url(value), requirement)


def database_url(meaning: str) -> Setting:
    """The URL of a PostgreSQL database, or nothing."""
    requirement = (
        "must be postgresql://USER:PASSWORD@HOST:PORT/NAME; in the password, what is"
        " neither a letter nor a digit is written as % and two hex digits"
    )
    return Setting(meaning, lambda value: not value or is_database_url(value), requirement, secret=True)


def storage(meaning: str) -> Setting:
    """The data folder, or the URL of a bucket."""
    bucket = re.compile(r"(?:s3|gs|az)://[\w.-]+(?:/[\w./-]*)?")
    requirement = "must be folder, or s3://BUCKET, gs://BUCKET or az://CONTAINER, with a /PREFIX or without"
    return Setting(meaning, lambda value: value == IN_FOLDER or bool(bucket.fullmatch(value)), requirement)


def listed(value: str) -> list[str]:
    """The parts of a list separated by commas, without spaces around them and without empty ones."""
    return [part.strip() for part in value.split(",") if part.strip()]


def toml_position(error: tomllib.TOMLDecodeError) -> str:
    """Where the parser found the error: ` at line 3, column 8`; empty if it does not say."""
    found = re.search(r"\bat (line \d+, column \d+|end of document)", str(error))
    return f" at {found[1]}" if found else ""


def with_secret_files(environ: Mapping[str, str], names: Iterable[str]) -> Mapping[str, str]:
    """The environment with the text of the file that NAME_FILE names as NAME, for these names. Raises
    ConfigError."""
    found = dict(environ)
    for name in names:
        if path := found.pop(f"{name}_FILE", ""):
            if found.get(name):
                raise ConfigError(f"{name}_FILE: must be empty, since {name} is set.")
            try:
                found[name] = Path(path).read_text(encoding="utf-8").rstrip("\r\n")
            except (OSError, UnicodeDecodeError) as error:
                why = (isinstance(error, OSError) and error.strerror) or "it is not UTF-8"
                raise ConfigError(f"{name}_FILE: {path} can't be read: {why}.") from None
    return found

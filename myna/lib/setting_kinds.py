"""How a setting is declared, as a field of a dataclass: its kind, its default, and what it means.

    port: int = kinds.whole(8080, 1, 65535)("the port to listen on", "监听端口")

From it follow how a value is read, the error of a wrong one, the commands `myna settings`, the page of
settings in both languages, and the tables of docs/configuration.md, which `make docs` writes.
"""

import dataclasses
import re
import tomllib
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Final, Generic, TypeVar

import msgspec
from msgspec import Struct

from myna.errors import ConfigError
from myna.errors.sentences import WrongValue
from myna.lib.net import (
    are_networks,
    is_base_url,
    is_database_url,
    is_origin,
    is_page_origin,
    is_secure,
    without_login,
)

V = TypeVar("V", int, float, str)
SECRET_MIN_CHARS: Final = 32
IN_FOLDER: Final = "folder"
"""The storage in the data folder."""
_METADATA: Final = "setting"


class Kind(Struct, Generic[V], frozen=True):
    """The values that a setting may have, and its default. The error of a value that is not `valid` is the
    `requirement`, with `values` for its placeholders, or the WrongValue that `valid` raises."""

    default: V
    requirement: str = "must be printable text"
    valid: Callable[[V], bool] = lambda value: True
    values: Mapping[str, Any] = {}
    secret: bool = False

    def __call__(self, english: str, chinese: str) -> V:
        """A setting of this kind with its meaning."""
        metadata = {_METADATA: Setting(self, english, chinese)}
        return dataclasses.field(default=self.default, metadata=metadata)

    def read(self, raw: object) -> V:
        """The value of a text, or of a value of TOML. Raises WrongValue."""
        try:
            value = msgspec.convert(raw, type(self.default), strict=False)
        except msgspec.ValidationError:
            value = None
        if value is None or (isinstance(value, str) and not value.isprintable()) or not self.valid(value):
            raise WrongValue(self.requirement, **self.values)
        return value

    def shown(self, value: V) -> object:
        """The value for printing: a secret is masked, a URL has no login."""
        if self.secret and value:
            return "***"
        return without_login(value) if isinstance(value, str) else value


class Setting(Struct, frozen=True):
    """What is declared of a setting."""

    kind: Kind[Any]
    english: str
    chinese: str


class Applied(Struct, frozen=True):
    """A setting with its value, for printing, and its source: `default`, `environment`, `database`, the name
    of a file, or `unreadable` for the default in place of a stored value that can't be read."""

    name: str
    value: object
    source: str
    setting: Setting


def declared(settings: type) -> dict[str, Setting]:
    """The settings of a class, by their names."""
    return {one.name: one.metadata[_METADATA] for one in dataclasses.fields(settings)}


def whole(default: int, least: int, most: int) -> Kind[int]:
    """A whole number."""
    requirement, values = "must be a whole number from {least} to {most}", {"least": least, "most": most}
    return Kind(default, requirement, lambda value: least <= value <= most, values)


def count(default: int) -> Kind[int]:
    return whole(default, 1, 1_000_000)


def size(default: int) -> Kind[int]:
    """A number of bytes."""
    return whole(default, 1, 2**34)


def seconds(default: float, most: int = 86_400) -> Kind[float]:
    requirement = "must be a number of seconds greater than 0 and at most {most}"
    return Kind(default, requirement, lambda value: 0 < value <= most, {"most": most})


def text(default: str = "") -> Kind[str]:
    return Kind(default)


def read_by(parse: Callable[[str], object], default: str = "") -> Kind[str]:
    """A text that `parse` can read; it raises WrongValue."""
    return Kind(default, valid=lambda value: parse(value) is not None)


def not_blank(default: str) -> Kind[str]:
    return Kind(default, "must not be blank", lambda value: bool(value.strip()))


def word(*words: str, default: str = "") -> Kind[str]:
    """One of a few words; the first is the default, unless another one is."""
    values = {"one": ", ".join(words[:-1]), "other": words[-1]}
    return Kind(default or words[0], "must be {one} or {other}", lambda value: value in words, values)


def secret() -> Kind[str]:
    """A secret that is sent in a header."""
    requirement = "contains a character that can't be sent in a header"
    return Kind("", requirement, lambda value: value.isascii() and " " not in value, secret=True)


def storage() -> Kind[str]:
    """The data folder, or the URL of a bucket."""
    bucket = re.compile(r"(?:s3|gs|az)://[\w.-]+(?:/[\w./-]*)?")
    requirement = "must be folder, s3://BUCKET/PREFIX, gs://BUCKET/PREFIX or az://CONTAINER/PREFIX"
    return Kind(IN_FOLDER, requirement, lambda value: value == IN_FOLDER or bool(bucket.fullmatch(value)))


def secret_keys() -> Kind[str]:
    """Secrets that encrypt, separated by commas: the first one encrypts, each decrypts."""

    def are_long(value: str) -> bool:
        return value.isascii() and all(len(one) >= SECRET_MIN_CHARS for one in listed(value))

    requirement = f"must be at least {SECRET_MIN_CHARS} ASCII characters, several such separated by commas"
    return Kind("", requirement, are_long, secret=True)


def origin() -> Kind[str]:
    """The origin of a URL, or nothing."""
    requirement = "must be http://HOST or https://HOST, with a port or without"
    return Kind("", requirement, lambda value: not value or is_origin(value))


def origins() -> Kind[str]:
    """Origins, separated by commas."""
    requirement = (
        "must be http://HOST or https://HOST, with a port or without, https://*.HOST, APP://NAME or null,"
        " several separated by commas"
    )
    return Kind("", requirement, lambda value: all(map(is_page_origin, listed(value))))


def networks() -> Kind[str]:
    """Addresses and networks, separated by commas."""
    return Kind(
        "", "must be addresses or networks such as 10.0.0.0/8, several separated by commas", are_networks
    )


def issuer() -> Kind[str]:
    """The issuer of an OpenID Connect provider, or nothing. Only a provider on this machine may use http."""
    requirement = "must be https://… without a query, or http:// on this machine"
    return Kind("", requirement, lambda value: not value or (is_secure(value) and "@" not in value))


def scopes(default: str) -> Kind[str]:
    """Scopes of OAuth with `openid` among them."""

    def are_scopes(value: str) -> bool:
        parts = value.split(" ")
        return "openid" in parts and all(map(re.compile(r"[!#-\[\]-~]+").fullmatch, parts))

    return Kind(default, "must be words separated by single spaces, with openid among them", are_scopes)


def base_url(or_else: str) -> Kind[str]:
    """A URL to which paths are added, another word, or nothing."""
    requirement = f"must be {or_else}, http://… or https://…, without a query"
    return Kind("", requirement, lambda value: value in ("", or_else) or is_base_url(value))


def database_url() -> Kind[str]:
    """The URL of a PostgreSQL database, or nothing."""
    requirement = (
        "must be postgresql://USER:PASSWORD@HOST:PORT/NAME; in the password, what is"
        " neither a letter nor a digit is written as % and two hex digits"
    )
    return Kind("", requirement, lambda value: not value or is_database_url(value), secret=True)


def listed(value: str) -> list[str]:
    """The parts of a list separated by commas, without spaces around them and without empty ones."""
    return [part.strip() for part in value.split(",") if part.strip()]


def read_toml(path: Path) -> dict[str, Any] | None:
    """The tables of a file, None if it does not exist. Raises ConfigError: one line with the file."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        return None
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path}: is not valid TOML{_position(error)}.") from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: is not UTF-8 from byte {error.start} on.") from None
    except OSError as error:
        raise ConfigError(f"{path}: can't be read: {error.strerror}.") from None


def _position(error: tomllib.TOMLDecodeError) -> str:
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

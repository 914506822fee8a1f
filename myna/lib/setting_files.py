"""Files that settings are read from: TOML, and secrets, as Docker and Kubernetes mount them."""

import re
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from myna.errors import ConfigError


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

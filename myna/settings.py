"""What a process is started with: one frozen struct, read once from environment, TOML file and defaults.

The environment wins over the file, the file over the defaults. The file is `myna.toml` in the current
folder, or whatever MYNA_CONFIG names; its keys are the names below. In the environment a name is in capitals
with MYNA_ in front. What the operator changes while the service runs is elsewhere: see `site.py`.
"""

import os
import re
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlsplit

import msgspec
from msgspec import Meta, Struct

from myna.errors import ConfigError

PREFIX = "MYNA_"
DEFAULT_FILE = "myna.toml"

Port = Annotated[int, Meta(ge=1, le=65535)]
Count = Annotated[int, Meta(ge=1, le=1_000_000)]
Bytes = Annotated[int, Meta(ge=1, le=2**34)]
Seconds = Annotated[float, Meta(gt=0, le=86_400)]

SECRETS = frozenset({"chat_key", "speech_key", "database_url"})
"""Shown masked wherever settings are shown."""

MEANINGS = {
    "data": "the data folder: database, audio, locks",
    "host": "the address to listen on",
    "port": "the port to listen on",
    "public_url": "how callers reach the service, without a path; empty: http://HOST:PORT",
    "database_url": "empty: SQLite in the data folder; or postgresql://…",
    "workers": "serving processes; more than one wants PostgreSQL",
    "chat_url": "a first chat channel: an OpenAI-compatible base URL, or parrot:",
    "chat_key": "the key that chat_url wants",
    "chat_model": "the model to ask for there",
    "speech": "espeak, none, or an OpenAI-compatible base URL that speaks",
    "speech_key": "the key that the speech URL wants",
    "speech_model": "the model to ask for there",
    "log_level": "debug, info, warning or error",
    "body_max_bytes": "the largest request body",
    "body_timeout_s": "how long a request body may take to arrive",
    "call_deadline_s": "how long the work of a call may take in all",
    "charge_wait_s": "how long a call waits for the database before it is refused uncharged",
    "queue_max": "charges that may wait for the database",
    "connections_max": "open client connections",
    "keep_alive_s": "how long an idle client connection stays open",
    "outbound_connections_max": "connections to upstreams",
    "upstream_timeout_s": "how long one channel may take before the next one is tried",
    "answer_max_bytes": "the largest answer of a chat channel",
    "speech_answer_max_bytes": "the largest audio of a speech channel",
    "speech_queue_max": "sentences that may wait for the embedded voice, or for the disk behind it",
    "channel_rest_s": "how long a channel that keeps failing is passed over",
    "shutdown_grace_s": "how long calls may go on after SIGTERM",
    "lease_s": "how long a compute node has a job without being heard",
    "beat_s": "how often a compute node is to be heard while it has a job",
    "chat_speech_wait_s": "how long a chat waits for a compute node to speak",
    "sweep_every_s": "how often calls left open are looked for",
    "audit_every_s": "how often the books are checked for the metrics",
}


class Settings(Struct, frozen=True, forbid_unknown_fields=True):
    """See MEANINGS; a limit has its unit last in its name."""

    data: str = "data"
    host: str = "127.0.0.1"
    port: Port = 8080
    public_url: str = ""
    database_url: str = ""
    workers: Annotated[int, Meta(ge=1, le=256)] = 1
    chat_url: str = ""
    chat_key: str = ""
    chat_model: str = ""
    speech: str = "espeak"
    speech_key: str = ""
    speech_model: str = "tts-1"
    log_level: str = "info"
    body_max_bytes: Bytes = 2**20
    body_timeout_s: Seconds = 20.0
    call_deadline_s: Seconds = 120.0
    charge_wait_s: Seconds = 5.0
    queue_max: Count = 4096
    connections_max: Count = 4096
    keep_alive_s: Annotated[int, Meta(ge=1, le=3600)] = 75
    outbound_connections_max: Count = 512
    upstream_timeout_s: Seconds = 60.0
    answer_max_bytes: Bytes = 8 * 2**20
    speech_answer_max_bytes: Bytes = 64 * 2**20
    speech_queue_max: Count = 256
    channel_rest_s: Seconds = 10.0
    shutdown_grace_s: Seconds = 20.0
    lease_s: Annotated[float, Meta(gt=0, le=600)] = 30.0
    beat_s: Annotated[float, Meta(gt=0, le=200)] = 10.0
    chat_speech_wait_s: Seconds = 60.0
    sweep_every_s: Annotated[float, Meta(gt=0, le=60)] = 5.0
    audit_every_s: Seconds = 3600.0

    @property
    def data_folder(self) -> Path:
        return Path(self.data).resolve()

    @property
    def base_url(self) -> str:
        """Where callers find the service, without a path and without a slash at the end."""
        if self.public_url:
            return self.public_url
        host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(self.host, self.host)  # noqa: S104  not a bind
        return f"http://{f'[{host}]' if ':' in host else host}:{self.port}"

    @property
    def on_sqlite(self) -> bool:
        return not self.database_url


class Source(Struct, frozen=True):
    """Where a setting's value comes from: `default`, `environment`, or the file's name."""

    name: str
    value: object
    source: str


def load(environ: Mapping[str, str], file: Path | None = None) -> tuple[Settings, list[Source]]:
    """Reads and checks all settings. Raises ConfigError with one line that says which is wrong and how."""
    from_file = _read_file(environ, file)
    from_environ = {
        name: environ[PREFIX + name.upper()] for name in MEANINGS if environ.get(PREFIX + name.upper(), "")
    }
    # The file is checked whole: what the environment hides today may be all there is tomorrow.
    in_file = {name: _checked(f"{name} in {from_file[0]}", name, raw) for name, raw in from_file[1].items()}
    in_environ = {name: _checked(PREFIX + name.upper(), name, raw) for name, raw in from_environ.items()}
    settings = Settings(**{**in_file, **in_environ})
    _check_together(settings)
    sources = []
    for name in MEANINGS:
        default = from_file[0] if name in from_file[1] else "default"
        source = "environment" if name in from_environ else default
        sources.append(Source(name, shown(name, getattr(settings, name)), source))
    return settings, sources


def shown(name: str, value: object) -> object:
    """The value as it may be printed: a secret only as whether it is set, a URL without who logs in."""
    if name in SECRETS and value:
        return "***"
    return without_login(value) if isinstance(value, str) else value


def without_login(url: str) -> str:
    """The URL without the name and the password that may be in it; what is no URL stays as it is."""
    head, separator, rest = url.partition("://")
    place, slash, path = rest.partition("/")
    if not separator or "@" not in place:
        return url
    return f"{head}://***@{place.rpartition('@')[2]}{slash}{path}"


def is_base_url(value: str) -> bool:
    """Whether a path can be added to it and the whole be called: http or https, a host, no query."""
    if not _VISIBLE.fullmatch(value) or "?" in value or "#" in value:
        return False
    try:
        parts = urlsplit(value)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # a port or an IPv6 address that is none
        return False


def _read_file(environ: Mapping[str, str], file: Path | None) -> tuple[str, dict[str, Any]]:
    named = environ.get(PREFIX + "CONFIG", "")
    path = file or Path(named or DEFAULT_FILE)
    try:
        found = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        if named or file:
            raise ConfigError(f"{PREFIX}CONFIG: there is no file {path}.") from None
        return "", {}
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, OSError) as error:
        raise ConfigError(f"{path}: can't be read: {error}") from None
    for name in found:
        if name not in MEANINGS:
            raise ConfigError(f"{path}: there is no setting {name!r}.")
    return str(path), found


_VISIBLE = re.compile(r"[\x21-\x7e]+")
_PLACE = re.compile(r"(?:[^:\[\]/@]*|\[[0-9A-Fa-f:.%]+\])(?::[0-9]{1,5})?")
_TYPES = {field.name: field.type for field in msgspec.structs.fields(Settings)}


def _checked(label: str, name: str, raw: object) -> Any:
    """The value in its type and form. Raises ConfigError, which repeats no value that may hold a secret."""
    try:
        value = msgspec.convert(raw, _TYPES[name], strict=False)
    except msgspec.ValidationError as error:
        shown_raw = "" if name in SECRETS else f" (it is {raw!r})"
        raise ConfigError(f"{label}: {error}{shown_raw}.") from None
    if isinstance(value, str):
        if not value.isprintable():
            raise ConfigError(f"{label}: holds a line break or another unprintable character.")
        right, wanted = _FORMS.get(name, (None, ""))
        if right is not None and not right(value):
            raise ConfigError(f"{label}: {wanted}")
    return value


def _check_together(settings: Settings) -> None:
    """What no value can be told by itself."""
    if settings.workers > 1 and settings.on_sqlite:
        raise ConfigError("MYNA_WORKERS: more than one wants PostgreSQL; set MYNA_DATABASE_URL.")
    if settings.beat_s * 2 > settings.lease_s:
        raise ConfigError(
            "MYNA_BEAT_S: must be at most half of MYNA_LEASE_S, so that one lost beat does no harm."
        )
    cores = usable_cores()
    if settings.workers > cores:
        raise ConfigError(f"MYNA_WORKERS: this process may use {cores} cores; more workers only take turns.")


def usable_cores() -> int:
    """How many cores this process may run on: `taskset` or a container's cpuset may leave it fewer."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _is_origin(url: str) -> bool:
    return is_base_url(url) and "@" not in url and not urlsplit(url).path


def _is_database_url(url: str) -> bool:
    """The scheme, and ports that are numbers: the driver would repeat a password that looks like a port."""
    scheme, separator, rest = url.partition("://")
    if scheme not in ("postgresql", "postgres") or not separator or not _VISIBLE.fullmatch(rest):
        return False
    places = re.split("[/?#]", rest, maxsplit=1)[0].rpartition("@")[2]
    return all(_PLACE.fullmatch(place) for place in places.split(","))


def _is_key(value: str) -> bool:
    return value.isascii() and " " not in value


_NOT_BLANK = (lambda value: bool(value.strip()), "must not be blank.")
_KEY = (_is_key, "holds a character that can't be sent in a header.")
_FORMS: dict[str, tuple[Callable[[str], bool], str]] = {
    "data": _NOT_BLANK,
    "host": _NOT_BLANK,
    "public_url": (
        lambda value: not value or _is_origin(value),
        "must be http://HOST or https://HOST, with a port or without.",
    ),
    "database_url": (
        lambda value: not value or _is_database_url(value),
        "must be postgresql://USER:PASSWORD@HOST:PORT/NAME; in the password, what is"
        " neither a letter nor a digit is written as % and two hex digits.",
    ),
    "chat_url": (
        lambda value: value in ("", "parrot:") or is_base_url(value),
        "must be parrot:, http://… or https://…, without a query.",
    ),
    "chat_key": _KEY,
    "speech": (
        lambda value: value in ("espeak", "none") or is_base_url(value),
        "must be espeak, none, http://… or https://…, without a query.",
    ),
    "speech_key": _KEY,
    "log_level": (
        lambda value: value in ("debug", "info", "warning", "error"),
        "must be debug, info, warning or error.",
    ),
}
"""The strings that have a form: whether a value has it, and what is said where it hasn't."""

"""The settings of a process, read once at its start from the environment, a TOML file and defaults.

The environment overrides the file, and the file the defaults. The file is `myna.toml` in the current folder,
or the file that MYNA_CONFIG names; its keys are the names below. Environment variables have the names in
capitals with the prefix MYNA_. Settings that change at run time are in `config.py`.
"""

import difflib
import os
import re
import tomllib
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlsplit

import msgspec
from msgspec import Meta, Struct

from myna.errors import ConfigError

PREFIX = "MYNA_"
DEFAULT_FILE = "myna.toml"
CONFIG_VARIABLE = PREFIX + "CONFIG"
"""Names the file."""
OTHERS_PREFIXES = (PREFIX + "KEY_", PREFIX + "TEST_")
"""Prefixes of variables that aren't settings: the keys of channels, and variables of the tests."""
SQLITE_FILE = "myna.sqlite"
"""In the data folder."""

Port = Annotated[int, Meta(ge=1, le=65535)]
Count = Annotated[int, Meta(ge=1, le=1_000_000)]
Bytes = Annotated[int, Meta(ge=1, le=2**34)]
Seconds = Annotated[float, Meta(gt=0, le=86_400)]

SECRETS = frozenset({"chat_key", "speech_key", "database_url", "metrics_token"})
"""Masked wherever settings are shown."""

MEANINGS = {
    "data": "the data folder: database, audio, locks",
    "host": "the address to listen on",
    "port": "the port to listen on",
    "public_url": "how callers reach the service, without a path; empty: http://HOST:PORT",
    "cors_origins": "origins of web pages that may call /v1, separated by commas; empty: none",
    "database_url": "empty: SQLite in the data folder; or postgresql://…",
    "workers": "serving processes; more than one wants PostgreSQL",
    "chat_url": "a first chat channel: an OpenAI-compatible base URL, or parrot:",
    "chat_key": "the key that chat_url wants",
    "chat_model": "the model to ask for there",
    "speech": "espeak, none, or an OpenAI-compatible base URL that speaks",
    "speech_key": "the key that the speech URL wants",
    "speech_model": "the model to ask for there",
    "log_level": "debug, info, warning or error",
    "metrics_token": "the Bearer token that /metrics wants; empty: none",
    "body_max_bytes": "the largest request body",
    "bodies_max_bytes": "request bodies over 64 KiB that are held at the same time, together",
    "body_timeout_s": "how long a request body may take to arrive",
    "call_deadline_s": "how long the work of a call may take in all",
    "charge_wait_s": "how long a call waits for the database before it is refused uncharged",
    "queue_max": "charges that may wait for the database",
    "connections_max": "open client connections",
    "keep_alive_s": "how long an idle client connection stays open",
    "outbound_connections_max": "connections to upstreams",
    "upstream_connect_s": "how long connecting to a channel may take",
    "upstream_idle_s": "how long a channel may send nothing, before its answer and within it",
    "answer_max_bytes": "the largest answer of a chat channel",
    "speech_answer_max_bytes": "the largest audio of a speech channel",
    "speech_queue_max": "sentences that may wait for the embedded voice, or for the disk behind it",
    "speech_account_max": "sentences of one account that may wait for the embedded voice or be spoken by it",
    "disk_reserve_bytes": "free space that new audio leaves in the data folder; 0: none",
    "channel_cooldown_s": "how long the circuit of a channel that keeps failing stays open",
    "shutdown_grace_s": "how long calls may go on after SIGTERM",
    "lease_s": "how long a compute node has a job without being heard",
    "beat_s": "how often a compute node is to be heard while it has a job",
    "chat_speech_wait_s": "how long a chat waits for a compute node to speak",
    "sweep_every_s": "how often calls left open are looked for",
    "audit_every_s": "how often the books are checked for the metrics",
}


REPLACED = {
    "upstream_timeout_s": "is replaced by MYNA_UPSTREAM_IDLE_S (how long a channel may send nothing),"
    " MYNA_UPSTREAM_CONNECT_S, and MYNA_CALL_DEADLINE_S for the whole.",
    "channel_rest_s": "is called MYNA_CHANNEL_COOLDOWN_S now.",
}
"""Settings of earlier versions, and what to set instead."""


class Settings(Struct, frozen=True, forbid_unknown_fields=True):
    """See MEANINGS; a limit has its unit last in its name."""

    data: str = "data"
    host: str = "127.0.0.1"
    port: Port = 8080
    public_url: str = ""
    cors_origins: str = ""
    database_url: str = ""
    workers: Annotated[int, Meta(ge=1, le=256)] = 1
    chat_url: str = ""
    chat_key: str = ""
    chat_model: str = ""
    speech: str = "espeak"
    speech_key: str = ""
    speech_model: str = "tts-1"
    log_level: str = "info"
    metrics_token: str = ""
    body_max_bytes: Bytes = 2**20
    bodies_max_bytes: Bytes = 2**28
    body_timeout_s: Seconds = 20.0
    call_deadline_s: Seconds = 300.0
    charge_wait_s: Seconds = 5.0
    queue_max: Count = 4096
    connections_max: Count = 4096
    keep_alive_s: Annotated[int, Meta(ge=1, le=3600)] = 75
    outbound_connections_max: Count = 512
    upstream_connect_s: Seconds = 5.0
    upstream_idle_s: Seconds = 120.0
    answer_max_bytes: Bytes = 8 * 2**20
    speech_answer_max_bytes: Bytes = 64 * 2**20
    speech_queue_max: Count = 256
    speech_account_max: Count = 64
    disk_reserve_bytes: Annotated[int, Meta(ge=0, le=2**50)] = 512 * 2**20
    channel_cooldown_s: Seconds = 10.0
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
        """The URL of the service for clients, without a path or trailing slash."""
        if self.public_url:
            return self.public_url
        host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(self.host, self.host)  # noqa: S104  not a bind
        return f"http://{f'[{host}]' if ':' in host else host}:{self.port}"

    @property
    def allowed_origins(self) -> list[str]:
        return [origin.strip() for origin in self.cors_origins.split(",") if origin.strip()]

    @property
    def fair_try_s(self) -> float:
        """A timeout after less time than this doesn't count as a failure of a channel."""
        return min(self.upstream_idle_s, self.call_deadline_s / 2)

    @property
    def on_sqlite(self) -> bool:
        return not self.database_url

    @property
    def sqlite_file(self) -> Path:
        return self.data_folder / SQLITE_FILE

    @property
    def database_place(self) -> str:
        """The file, or the host, port and name on a server, without the login and the URL's other parts."""
        if self.on_sqlite:
            return str(self.sqlite_file)
        _, _, address = without_login(self.database_url).partition("://")
        return re.split("[?#]", address.removeprefix("***@"), maxsplit=1)[0]


class Source(Struct, frozen=True):
    """A setting's value and its source: `default`, `environment`, or the file's name."""

    name: str
    value: object
    source: str


def load(environ: Mapping[str, str], file: Path | None = None) -> tuple[Settings, list[Source]]:
    """Reads and checks all settings. Raises ConfigError with one line about the first error."""
    _check_names(environ)
    from_file = _read_file(environ, file)
    from_environ = {
        name: environ[PREFIX + name.upper()] for name in MEANINGS if environ.get(PREFIX + name.upper(), "")
    }
    # The file is checked whole: what the environment hides today may be all there is tomorrow.
    in_file = {name: checked(f"{name} in {from_file[0]}", name, raw) for name, raw in from_file[1].items()}
    in_environ = {name: checked(PREFIX + name.upper(), name, raw) for name, raw in from_environ.items()}
    settings = Settings(**{**in_file, **in_environ})
    _check_together(settings)
    sources = []
    for name in MEANINGS:
        default = from_file[0] if name in from_file[1] else "default"
        source = "environment" if name in from_environ else default
        sources.append(Source(name, shown(name, getattr(settings, name)), source))
    return settings, sources


def shown(name: str, value: object) -> object:
    """The value for printing: a secret is masked, a URL has no login."""
    if name in SECRETS and value:
        return "***"
    return without_login(value) if isinstance(value, str) else value


def without_login(url: str) -> str:
    """The URL without its user name and password; other text is returned unchanged."""
    head, separator, rest = url.partition("://")
    place, slash, path = rest.partition("/")
    if not separator or "@" not in place:
        return url
    return f"{head}://***@{place.rpartition('@')[2]}{slash}{path}"


def is_base_url(value: str) -> bool:
    """Whether it is an http or https URL with a host and without a query, to which a path can be added."""
    if not _VISIBLE.fullmatch(value) or "?" in value or "#" in value:
        return False
    try:
        parts = urlsplit(value)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # an invalid port or IPv6 address
        return False


def _read_file(environ: Mapping[str, str], file: Path | None) -> tuple[str, dict[str, Any]]:
    named = environ.get(CONFIG_VARIABLE, "")
    path = file or Path(named or DEFAULT_FILE)
    try:
        found = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        if named or file:
            raise ConfigError(f"{CONFIG_VARIABLE}: there is no file {path}.") from None
        return "", {}
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, OSError) as error:
        raise ConfigError(f"{path}: can't be read: {error}") from None
    for name in found:
        if name in REPLACED:
            raise ConfigError(f"{path}: {name}: {REPLACED[name]}")
        if name not in MEANINGS:
            raise ConfigError(f"{path}: there is no setting {name!r}.{_nearest(name, MEANINGS)}")
    return str(path), found


def key_variable_fits(name: str) -> bool:
    """Whether a variable of this name may contain a channel's key. Below MYNA_ only one prefix may, so that a
    misspelt setting is noticed."""
    return not name.startswith(PREFIX) or name.startswith(OTHERS_PREFIXES[0])


def _check_names(environ: Mapping[str, str]) -> None:
    """Raises ConfigError for an unknown variable with our prefix. An empty variable counts as not set."""
    ours = {PREFIX + name.upper() for name in MEANINGS} | {CONFIG_VARIABLE}
    for name, value in environ.items():
        setting = name.removeprefix(PREFIX).lower()
        if value and name.startswith(PREFIX) and setting in REPLACED:
            raise ConfigError(f"{name}: {REPLACED[setting]}")
        if value and name.startswith(PREFIX) and name not in ours and not name.startswith(OTHERS_PREFIXES):
            raise ConfigError(
                f"{name}: there is no such setting.{_nearest(name, ours)}"
                f" A variable that holds a channel's key may be called {OTHERS_PREFIXES[0]}…"
            )


def _nearest(name: str, known: Iterable[str]) -> str:
    """A hint at the most similar name. The common prefix is not compared."""
    prefix = PREFIX if name.startswith(PREFIX) else ""
    found = difflib.get_close_matches(
        name.removeprefix(prefix), [one.removeprefix(prefix) for one in known], n=1
    )
    return f" Did you mean {prefix}{found[0]}?" if found else ""


_VISIBLE = re.compile(r"[\x21-\x7e]+")
_PLACE = re.compile(r"(?:[^:\[\]/@]*|\[[0-9A-Fa-f:.%]+\])(?::[0-9]{1,5})?")
_TYPES = {field.name: field.type for field in msgspec.structs.fields(Settings)}


def checked(label: str, name: str, raw: object) -> Any:
    """The value in its type and form. Raises ConfigError, which never repeats a secret value."""
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
    """Checks rules over several settings. Raises ConfigError."""
    if settings.workers > 1 and settings.on_sqlite:
        raise ConfigError("MYNA_WORKERS: more than one wants PostgreSQL; set MYNA_DATABASE_URL.")
    if settings.bodies_max_bytes < settings.body_max_bytes:
        raise ConfigError("MYNA_BODIES_MAX_BYTES: must be at least MYNA_BODY_MAX_BYTES.")
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
    """Checks scheme and ports: the driver's error would repeat a password that looks like a port."""
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
    "cors_origins": (
        lambda value: all(_is_origin(origin.strip()) for origin in value.split(",") if origin.strip()),
        "must be http://HOST or https://HOST, with a port or without, several separated by commas.",
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
    "metrics_token": _KEY,
    "log_level": (
        lambda value: value in ("debug", "info", "warning", "error"),
        "must be debug, info, warning or error.",
    ),
}
"""Forms of strings: a predicate, and the error message for a value that fails it."""

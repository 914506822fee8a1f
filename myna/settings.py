"""The settings of a process, read once at its start from the environment, a TOML file and defaults.

The environment overrides the file, and the file the defaults. The file is `myna.toml` in the current folder,
or the file that MYNA_CONFIG names; its keys are the fields of Settings. Environment variables have the names
in capitals with the prefix MYNA_. Settings that change at run time are in `config.py`.

To add a setting, add a field to Settings and a row to docs/configuration.md.
"""

import contextlib
import difflib
import os
import re
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import msgspec
from msgspec import Meta, Struct
from msgspec.inspect import FloatType, IntType, type_info

from myna.errors import ConfigError
from myna.lib import setting_kinds as kinds
from myna.lib.net import is_base_url, without_login
from myna.lib.setting_kinds import Setting, listed, toml_position, with_secret_files

PREFIX = "MYNA_"
DEFAULT_FILE = "myna.toml"
CONFIG_VARIABLE = PREFIX + "CONFIG"
"""Names the file."""
KEY_PREFIX = PREFIX + "KEY_"
"""The prefix of variables that contain the keys of channels."""
OTHER_PREFIXES = (KEY_PREFIX, PREFIX + "TEST_")
"""Prefixes of variables that aren't settings: the keys of channels, and variables of the tests."""
SQLITE_FILE = "myna.sqlite"
"""In the data folder."""
POSTGRESQL_CONNECTIONS = 15
"""How many a process may have: `store/postgresql_session.py` shares them."""
SHOWN_CHARS = 18
"""A longer value, with its quotes, is not in an error message. API keys have 20 characters and more."""

Port = Annotated[int, Meta(ge=1, le=65535)]
Count = Annotated[int, Meta(ge=1, le=1_000_000)]
Bytes = Annotated[int, Meta(ge=1, le=2**34)]
Seconds = Annotated[float, Meta(gt=0, le=86_400)]

REPLACED = {
    "upstream_timeout_s": "is replaced by MYNA_UPSTREAM_IDLE_S (how long a channel may send nothing),"
    " MYNA_UPSTREAM_CONNECT_S, and MYNA_CALL_DEADLINE_S for the whole.",
    "channel_rest_s": "is called MYNA_CHANNEL_COOLDOWN_S now.",
}
"""Settings of earlier versions, and their replacements."""


class Settings(Struct, frozen=True, forbid_unknown_fields=True):
    """The process settings: name with its unit last, type, range or form, meaning and default."""

    data: Annotated[str, kinds.not_blank("the data folder: database, audio, locks")] = "data"
    storage: Annotated[str, kinds.storage("audio and samples: folder, s3://…, gs://… or az://…")] = (
        kinds.IN_FOLDER
    )
    uploads_redirect_s: Annotated[
        int,
        Meta(ge=0, le=604_800),
        Setting("life of the address to which /uploads/ redirects; 0: none"),
    ] = 0
    host: Annotated[str, kinds.not_blank("the address to listen on")] = "127.0.0.1"
    port: Annotated[Port, Setting("the port to listen on")] = 8080
    public_url: Annotated[
        str, kinds.origin("public address of the service, without a path; empty: http://HOST:PORT")
    ] = ""
    cors_origins: Annotated[
        str,
        kinds.origins(
            "origins of web pages that may call /v1 and /openai/v1, separated by commas; empty: none"
        ),
    ] = ""
    trusted_proxies: Annotated[str, kinds.networks("proxies that name the client's address; empty: none")] = (
        ""
    )
    database_url: Annotated[str, kinds.database_url("postgresql://…; empty: SQLite in the data folder")] = ""
    postgresql_connections: Annotated[
        int, Meta(ge=8, le=1000), Setting("connections of each process to PostgreSQL, at most")
    ] = POSTGRESQL_CONNECTIONS
    postgresql_pooling: Annotated[
        str,
        kinds.word(
            "session, or transaction behind a pooler that lends a session for each transaction",
            "session",
            "transaction",
        ),
    ] = "session"
    database_listen_url: Annotated[
        str,
        kinds.database_url(
            "postgresql://… without the pooler, for notifications; empty: MYNA_DATABASE_URL, or polling with"
            " transaction pooling"
        ),
    ] = ""
    migrate: Annotated[
        str,
        kinds.word("whether the service migrates the database at its start: on or off", "on", "off"),
    ] = "on"
    workers: Annotated[
        int, Meta(ge=1, le=256), Setting("serving processes; more than one needs PostgreSQL")
    ] = 1
    chat_url: Annotated[
        str,
        kinds.base_url(
            "a first chat channel: an OpenAI-compatible base URL, or parrot:", or_one_of=("", "parrot:")
        ),
    ] = ""
    chat_key: Annotated[str, kinds.secret("the key of chat_url")] = ""
    chat_model: Annotated[str, Setting("the model to request from chat_url; empty: the caller's")] = ""
    speech: Annotated[
        str,
        Setting(
            "auto (kokoro if its model is installed, and espeak), kokoro, espeak, none, sherpa:/FOLDER of a"
            " model, or an OpenAI-compatible base URL that speaks",
            lambda value: bool(_LOCAL_SPEECH.fullmatch(value)) or is_base_url(value),
            "must be auto, kokoro, espeak, none, sherpa:/FOLDER, http://… or https://…, without a query",
        ),
    ] = "auto"
    speech_processes: Annotated[
        int, Meta(ge=0, le=256), Setting("processes of each embedded voice, per worker; 0: by its cores")
    ] = 0
    speech_key: Annotated[str, kinds.secret("the key of the speech URL")] = ""
    speech_model: Annotated[str, Setting("the model to request from the speech URL")] = "tts-1"
    log_level: Annotated[
        str, kinds.word("debug, info, warning or error", "debug", "info", "warning", "error")
    ] = "info"
    metrics_token: Annotated[str, kinds.secret("the Bearer token that /metrics requires; empty: none")] = ""
    oidc_issuer: Annotated[str, kinds.issuer("the provider of sign-ins by OpenID Connect; empty: none")] = ""
    oidc_client_id: Annotated[str, Setting("the client id at the provider")] = ""
    oidc_client_secret: Annotated[str, kinds.secret("the client secret at the provider")] = ""
    oidc_client_secret_file: Annotated[str, Setting("a file of mode 0600 with the client secret")] = ""
    oidc_name: Annotated[str, kinds.not_blank("the name of the provider on the sign-in page")] = "SSO"
    oidc_scopes: Annotated[str, kinds.scopes("the scopes to request, separated by spaces")] = "openid"
    oidc_link_by_email: Annotated[
        str, kinds.word("whether a verified e-mail address links an account: on or off", "on", "off")
    ] = "off"
    body_max_bytes: Annotated[Bytes, Setting("the largest request body")] = 2**20
    upload_max_bytes: Annotated[Bytes, Setting("the largest recording to transcribe")] = 25 * 2**20
    bodies_max_bytes: Annotated[
        Bytes, Setting("total size of request bodies over 64 KiB in memory, per process")
    ] = 2**28
    body_timeout_s: Annotated[Seconds, Setting("time limit for receiving a request body")] = 20.0
    call_deadline_s: Annotated[Seconds, Setting("time limit for the work of a call")] = 300.0
    stream_deadline_s: Annotated[Seconds, Setting("time limit for a streamed call of /openai/v1")] = 900.0
    charge_wait_s: Annotated[
        Seconds, Setting("how long a call waits for the database before it is refused uncharged")
    ] = 5.0
    queue_max: Annotated[Count, Setting("charges in the queue for the database")] = 4096
    connections_max: Annotated[Count, Setting("open client connections")] = 4096
    keep_alive_s: Annotated[
        int, Meta(ge=1, le=3600), Setting("how long an idle client connection stays open")
    ] = 75
    outbound_connections_max: Annotated[Count, Setting("connections to upstreams")] = 512
    upstream_connect_s: Annotated[Seconds, Setting("time limit for connecting to a channel")] = 5.0
    upstream_idle_s: Annotated[
        Seconds, Setting("how long a channel may send nothing, before and during its answer")
    ] = 120.0
    answer_max_bytes: Annotated[Bytes, Setting("the largest answer of a chat channel")] = 8 * 2**20
    embeddings_answer_max_bytes: Annotated[
        Bytes, Setting("the largest answer of a chat channel to a request for embeddings")
    ] = 64 * 2**20
    speech_answer_max_bytes: Annotated[Bytes, Setting("the largest audio of a speech channel")] = 64 * 2**20
    speech_queue_max: Annotated[
        Count, Setting("texts in the queue for the embedded voice or model, or its disk")
    ] = 256
    speech_account_max: Annotated[
        Count, Setting("texts of one account that wait for the embedded voice or model, or are being spoken")
    ] = 64
    disk_reserve_bytes: Annotated[
        int, Meta(ge=0, le=2**50), Setting("free space that audio leaves on the data folder's disks; 0: none")
    ] = 512 * 2**20
    channel_cooldown_s: Annotated[
        Seconds, Setting("how long the circuit of a failing channel stays open")
    ] = 10.0
    drain_s: Annotated[
        int, Meta(ge=0, le=3600), Setting("time after SIGTERM in which calls are taken, while /readyz is 503")
    ] = 0
    shutdown_grace_s: Annotated[Seconds, Setting("time for open calls to finish after SIGTERM")] = 20.0
    lease_s: Annotated[
        float, Meta(gt=0, le=600), Setting("lease of a compute node's job without a heartbeat")
    ] = 30.0
    beat_s: Annotated[
        float, Meta(gt=0, le=200), Setting("interval of a compute node's heartbeats while it has a job")
    ] = 10.0
    chat_speech_wait_s: Annotated[
        Seconds, Setting("how long a chat that asks for speech waits for a compute node")
    ] = 60.0
    sweep_every_s: Annotated[
        float, Meta(gt=0, le=60), Setting("interval of the sweep for calls open past their deadline")
    ] = 5.0
    audit_every_s: Annotated[Seconds, Setting("interval of the audit")] = 3600.0

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
        return listed(self.cors_origins)

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
    def database_label(self) -> str:
        """The file, or the host, port and database name of the URL."""
        if self.on_sqlite:
            return str(self.sqlite_file)
        _, _, address = without_login(self.database_url).partition("://")
        return re.split("[?#]", address.removeprefix("***@"), maxsplit=1)[0]


def _declared(hint: Any) -> Setting:
    return next(one for one in hint.__metadata__ if isinstance(one, Setting))


_TYPES = get_type_hints(Settings, include_extras=True)
SETTINGS: dict[str, Setting] = {name: _declared(hint) for name, hint in _TYPES.items()}


class Source(Struct, frozen=True):
    """A setting's value and its source: `default`, `environment`, or the file's name."""

    name: str
    value: object
    source: str


def load(environ: Mapping[str, str], file: Path | None = None) -> tuple[Settings, list[Source]]:
    """Reads and checks all settings. Raises ConfigError with one line about the first error."""
    secrets = [name for name, one in SETTINGS.items() if one.secret and f"{name}_file" not in SETTINGS]
    environ = with_secret_files(environ, [PREFIX + name.upper() for name in secrets])
    _check_names(environ)
    from_file = _read_file(environ, file)
    from_environ = {
        name: environ[PREFIX + name.upper()] for name in SETTINGS if environ.get(PREFIX + name.upper(), "")
    }
    # Overridden values of the file are checked too: the variable may be unset at the next start.
    in_file = {name: checked(f"{name} in {from_file[0]}", name, raw) for name, raw in from_file[1].items()}
    in_environ = {name: checked(PREFIX + name.upper(), name, raw) for name, raw in from_environ.items()}
    settings = Settings(**{**in_file, **in_environ})
    _check_together(settings)
    sources = []
    for name in SETTINGS:
        default = from_file[0] if name in from_file[1] else "default"
        source = "environment" if name in from_environ else default
        sources.append(Source(name, shown(name, getattr(settings, name)), source))
    return settings, sources


def shown(name: str, value: object) -> object:
    """The value for printing: a secret is masked, a URL has no login."""
    if SETTINGS[name].secret and value:
        return "***"
    return without_login(value) if isinstance(value, str) else value


def _read_file(environ: Mapping[str, str], file: Path | None) -> tuple[str, dict[str, Any]]:
    named = environ.get(CONFIG_VARIABLE, "")
    path = file or Path(named or DEFAULT_FILE)
    try:
        found = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        if named or file:
            raise ConfigError(f"{CONFIG_VARIABLE}: there is no file {path}.") from None
        return "", {}
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path}: is not valid TOML{toml_position(error)}.") from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: is not UTF-8 from byte {error.start} on.") from None
    except OSError as error:
        raise ConfigError(f"{path}: can't be read: {error.strerror}.") from None
    for name in found:
        if name in REPLACED:
            raise ConfigError(f"{path}: {name}: {REPLACED[name]}")
        if name not in SETTINGS:
            raise ConfigError(f"{path}: there is no setting {name!r}.{_nearest(name, SETTINGS)}")
    return str(path), found


def can_name_a_key(name: str) -> bool:
    """Whether a variable of this name may contain a channel's key. A name that begins with MYNA_ must begin
    with MYNA_KEY_: the others are checked, so that a misspelt setting is an error."""
    return not name.startswith(PREFIX) or name.startswith(KEY_PREFIX)


def _check_names(environ: Mapping[str, str]) -> None:
    """Raises ConfigError for an unknown variable with our prefix. An empty variable counts as not set."""
    ours = {PREFIX + name.upper() for name in SETTINGS} | {CONFIG_VARIABLE}
    for name, value in environ.items():
        setting = name.removeprefix(PREFIX).lower()
        if value and name.startswith(PREFIX) and setting in REPLACED:
            raise ConfigError(f"{name}: {REPLACED[setting]}")
        if value and name.startswith(PREFIX) and name not in ours and not name.startswith(OTHER_PREFIXES):
            raise ConfigError(
                f"{name}: there is no such setting.{_nearest(name, ours)}"
                f" A variable that contains a channel's key may be called {KEY_PREFIX}…"
            )


def _nearest(name: str, known: Iterable[str]) -> str:
    """A hint at the most similar name. The common prefix is not compared."""
    prefix = PREFIX if name.startswith(PREFIX) else ""
    found = difflib.get_close_matches(
        name.removeprefix(prefix), [one.removeprefix(prefix) for one in known], n=1
    )
    return f" Did you mean {prefix}{found[0]}?" if found else ""


_LOCAL_SPEECH = re.compile(r"auto|kokoro|espeak|none|(?!https?:)[a-z]+:/(?!/).+")


def checked(label: str, name: str, raw: object) -> Any:
    """The value in its type. Raises ConfigError with the label, the required form, and the value unless
    it may contain a secret."""
    try:
        value = msgspec.convert(raw, _TYPES[name], strict=False)
    except msgspec.ValidationError:
        raise ConfigError(f"{label}: must be {_form(name)}{_it_is(name, raw)}.") from None
    if isinstance(value, str):
        if not value.isprintable():
            raise ConfigError(f"{label}: contains a line break or another unprintable character.")
        if not SETTINGS[name].valid(value):
            raise ConfigError(f"{label}: {SETTINGS[name].requirement}{_it_is(name, raw)}.")
    return value


def _form(name: str) -> str:
    """The type and the range of a setting in words."""
    kind = type_info(_TYPES[name])
    if isinstance(kind, IntType):
        return f"a whole number from {kind.ge} to {kind.le}"
    if isinstance(kind, FloatType):
        return f"a number of seconds greater than {kind.gt:g} and at most {kind.le:g}"
    return "text"


def _it_is(name: str, raw: object) -> str:
    """The wrong value. Nothing for a secret, for a URL that may contain one, and for a long value, which may
    be a key under a wrong name."""
    shown = repr(raw)
    if SETTINGS[name].secret or len(shown) > SHOWN_CHARS or re.search("[@?]", shown):
        return ""
    return f"; it is {shown}"


def _check_together(settings: Settings) -> None:
    """Checks rules over several settings. Raises ConfigError."""
    if settings.workers > 1 and settings.on_sqlite:
        raise ConfigError("MYNA_WORKERS: more than one needs PostgreSQL; set MYNA_DATABASE_URL.")
    if settings.bodies_max_bytes < settings.body_max_bytes:
        raise ConfigError("MYNA_BODIES_MAX_BYTES: must be at least MYNA_BODY_MAX_BYTES.")
    if settings.beat_s * 2 > settings.lease_s:
        raise ConfigError(
            "MYNA_BEAT_S: must be at most half of MYNA_LEASE_S, so that a lease outlives a lost heartbeat."
        )
    if settings.oidc_issuer and not settings.oidc_client_id:
        raise ConfigError("MYNA_OIDC_CLIENT_ID: must be set, since MYNA_OIDC_ISSUER is.")
    if settings.oidc_client_secret and settings.oidc_client_secret_file:
        raise ConfigError(
            "MYNA_OIDC_CLIENT_SECRET_FILE: must be empty, since MYNA_OIDC_CLIENT_SECRET is set."
        )
    if settings.oidc_link_by_email == "on" and "email" not in settings.oidc_scopes.split():
        raise ConfigError("MYNA_OIDC_SCOPES: must contain email, since MYNA_OIDC_LINK_BY_EMAIL is on.")
    cores = usable_cores()
    if settings.workers > cores:
        raise ConfigError(f"MYNA_WORKERS: must be at most {cores}, the number of cores of this process.")


def usable_cores(cgroup: Path = Path("/sys/fs/cgroup")) -> int:
    """How many cores this process may use: `taskset`, or a container's cpuset or quota, may leave fewer."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    with contextlib.suppress(OSError, ValueError):  # "max" without a quota; no such file before cgroup 2
        quota, period = (cgroup / "cpu.max").read_text().split()
        cores = min(cores, max(1, -(-int(quota) // int(period))))
    return cores

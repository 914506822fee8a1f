"""The settings of a process, read once at its start from the environment, a TOML file and defaults.

The environment overrides the file, and the file the defaults. The file is `myna.toml` in the current folder,
or the file that MYNA_CONFIG names; its keys are the fields of Settings. Environment variables have the names
in capitals with the prefix MYNA_. Settings that change at run time are in `config.py`.

To add a setting, add a field to Settings, and run `make docs`.
"""

import contextlib
import difflib
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from myna.errors import ConfigError
from myna.errors.sentences import WrongValue
from myna.lib import setting_kinds as kinds
from myna.lib.net import is_base_url, without_login
from myna.lib.setting_kinds import Applied, read_toml, with_secret_files

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

_LOCAL_SPEECH = re.compile(r"auto|kokoro|espeak|none|(?!https?:)[a-z]+:/(?!/).+")


@dataclass(frozen=True, repr=False)
class Settings:
    """The process settings: name with its unit last, kind with its default, and meaning. `repr()` shows none:
    some are secrets, and that of a component shows its settings."""

    data: str = kinds.not_blank("data")("the data folder: database, audio, locks", "数据库、音频等的目录")
    storage: str = kinds.storage()(
        "audio and samples: folder, or s3://…, gs://…, az://…", "音频和样本：folder，或存储桶地址"
    )
    uploads_redirect_s: int = kinds.whole(0, 0, 604_800)(
        "life of the address to which /uploads/ redirects; 0: none",
        "音频重定向地址的有效期（秒）；0 表示不重定向",
    )
    host: str = kinds.not_blank("127.0.0.1")("the address to listen on", "监听地址")
    port: int = kinds.whole(8080, 1, 65535)("the port to listen on", "监听端口")
    public_url: str = kinds.origin()(
        "public address of the service, without a path; empty: http://HOST:PORT",
        "服务的公网地址，不含路径；留空则为 http://主机:端口",
    )
    cors_origins: str = kinds.origins()(
        "origins of web pages that may call /v1 and /openai/v1, separated by commas; empty: none",
        "允许网页调用 /v1 和 /openai/v1 的来源，用英文逗号分隔；留空则不允许",
    )
    trusted_proxies: str = kinds.networks()(
        "proxies that name the client's address, separated by commas; empty: none",
        "可信反向代理（由它们提供客户端地址），用英文逗号分隔；留空则无",
    )
    database_url: str = kinds.database_url()(
        "postgresql://USER:PASSWORD@HOST/NAME; empty: SQLite in the data folder",
        "postgresql://用户:密码@主机/库名；留空则使用数据目录中的 SQLite",
    )
    postgresql_connections: int = kinds.whole(POSTGRESQL_CONNECTIONS, 8, 1000)(
        "connections of each process to PostgreSQL, at most", "每个进程到 PostgreSQL 的最大连接数"
    )
    postgresql_pooling: str = kinds.word("session", "transaction")(
        "session, or transaction behind a pooler that assigns a session to each transaction",
        "session；若连接池按事务分配连接，则为 transaction",
    )
    database_listen_url: str = kinds.database_url()(
        "postgresql://… without the pooler, for notifications; empty: MYNA_DATABASE_URL, or polling with"
        " transaction pooling",
        "不经过连接池的 postgresql://… 地址，用于接收通知；留空则使用 MYNA_DATABASE_URL，"
        "事务级连接池下改为轮询",
    )
    migrate: str = kinds.word("on", "off")(
        "whether the service migrates the database at its start: on or off",
        "服务启动时是否迁移数据库：on 或 off",
    )
    workers: int = kinds.whole(1, 1, 256)(
        "serving processes; more than one needs PostgreSQL", "服务进程数；大于 1 时需要 PostgreSQL"
    )
    chat_url: str = kinds.base_url("parrot:")(
        "a first chat channel: an OpenAI-compatible base URL, or parrot:",
        "首个对话渠道：OpenAI 兼容接口的 Base URL，或 parrot:",
    )
    chat_key: str = kinds.secret()("the key of chat_url", "chat_url 的密钥")
    chat_model: str = kinds.text()(
        "the model to request from chat_url; empty: the caller's",
        "向 chat_url 请求的模型；留空则使用调用方指定的模型",
    )
    speech: str = kinds.Kind(
        "auto",
        "must be auto, kokoro, espeak, none, sherpa:/FOLDER, http://… or https://…, without a query",
        lambda value: bool(_LOCAL_SPEECH.fullmatch(value)) or is_base_url(value),
    )(
        "auto (kokoro if its model is installed, and espeak), kokoro, espeak, none, sherpa:/FOLDER of a"
        " model, or an OpenAI-compatible base URL that speaks",
        "auto（已安装 kokoro 模型时使用它，并使用 espeak）、kokoro、espeak、none、sherpa:/模型目录，"
        "或 OpenAI 兼容的语音接口 Base URL",
    )
    speech_processes: int = kinds.whole(0, 0, 256)(
        "processes of each embedded voice, for all workers; 0: by the cores",
        "每个内置音色引擎的进程数（所有服务进程共用）；0 表示按可用核心数决定",
    )
    speech_key: str = kinds.secret()("the key of the speech URL", "语音接口的密钥")
    speech_model: str = kinds.text("tts-1")(
        "the model to request from the speech URL", "向语音接口请求的模型"
    )
    log_level: str = kinds.word("debug", "info", "warning", "error", default="info")(
        "what is logged: debug, info, warning or error", "日志级别：debug、info、warning 或 error"
    )
    metrics_port: int = kinds.whole(0, 0, 65535)(
        "a port for /metrics alone, which the service then has there only; 0: none",
        "单独提供 /metrics 的端口，主端口则不再提供；0 表示不单独提供",
    )
    metrics_host: str = kinds.text()(
        "the address of this port; empty: MYNA_HOST", "该端口的监听地址；留空则与 MYNA_HOST 相同"
    )
    metrics_token: str = kinds.secret()(
        "the Bearer token that /metrics requires; empty: none",
        "访问 /metrics 所需的 Bearer 令牌；留空则不需要",
    )
    secret_key: str = kinds.secret_keys()(
        "encrypts keys of channels; empty: they are in files", "用于加密渠道密钥；留空则密钥保存在文件中"
    )
    oidc_issuer: str = kinds.issuer()(
        "the provider of sign-ins by OpenID Connect; empty: none", "OpenID Connect 登录服务商；留空则不启用"
    )
    oidc_client_id: str = kinds.text()("the client id at the provider", "在登录服务商处的客户端 ID")
    oidc_client_secret: str = kinds.secret()(
        "the client secret at the provider", "在登录服务商处的客户端密钥"
    )
    oidc_client_secret_file: str = kinds.text()(
        "a file of mode 0600 with the client secret", "存放客户端密钥的文件（权限 0600）"
    )
    oidc_name: str = kinds.not_blank("SSO")(
        "the name of the provider on the sign-in page", "登录页上显示的服务商名称"
    )
    oidc_scopes: str = kinds.scopes("openid")(
        "the scopes to request, separated by spaces", "请求的 scope，用空格分隔"
    )
    oidc_link_by_email: str = kinds.word("on", "off", default="off")(
        "whether a verified e-mail address links an account: on or off",
        "是否按已验证的邮箱自动绑定账户：on 或 off",
    )
    body_max_bytes: int = kinds.size(2**20)("the largest request body", "请求体的最大字节数")
    upload_max_bytes: int = kinds.size(25 * 2**20)(
        "the largest recording to transcribe", "待转写录音的最大字节数"
    )
    bodies_max_bytes: int = kinds.size(2**28)(
        "total size of request bodies over 64 KiB in memory, per process",
        "每个进程在内存中存放的请求体总量（仅计大于 64 KiB 的请求体）",
    )
    body_timeout_s: float = kinds.seconds(20.0)(
        "time limit for receiving a request body", "接收请求体的时限（秒）"
    )
    call_deadline_s: float = kinds.seconds(300.0)(
        "time limit for the work of a call", "处理一次调用的时限（秒）"
    )
    stream_deadline_s: float = kinds.seconds(900.0)(
        "time limit for a streamed call of /openai/v1", "/openai/v1 流式调用的时限（秒）"
    )
    charge_wait_s: float = kinds.seconds(5.0)(
        "how long a call waits for the database before it is refused uncharged",
        "调用等待数据库的最长时间（秒），超时则拒绝且不扣费",
    )
    queue_max: int = kinds.count(4096)("charges in the queue for the database", "等待数据库处理的扣费数上限")
    connections_max: int = kinds.count(4096)("open client connections", "客户端连接数上限")
    keep_alive_s: int = kinds.whole(75, 1, 3600)(
        "how long an idle client connection stays open", "空闲客户端连接的保持时间（秒）"
    )
    outbound_connections_max: int = kinds.count(512)("connections to upstreams", "到上游的连接数上限")
    upstream_connect_s: float = kinds.seconds(5.0)(
        "time limit for connecting to a channel", "连接渠道的时限（秒）"
    )
    upstream_idle_s: float = kinds.seconds(120.0)(
        "how long a channel may send nothing, before and during its answer",
        "渠道在响应之前或期间无数据的最长时间（秒）",
    )
    answer_max_bytes: int = kinds.size(8 * 2**20)(
        "the largest answer of a chat channel", "对话渠道响应的最大字节数"
    )
    embeddings_answer_max_bytes: int = kinds.size(64 * 2**20)(
        "the largest answer of a chat channel to a request for embeddings",
        "对话渠道返回向量时响应的最大字节数",
    )
    speech_answer_max_bytes: int = kinds.size(64 * 2**20)(
        "the largest audio of a speech channel", "语音渠道音频的最大字节数"
    )
    speech_queue_max: int = kinds.count(256)(
        "texts in the queue for the embedded voice or model, or its disk",
        "排队等待内置语音、本地模型或其磁盘的文本数上限",
    )
    speech_account_max: int = kinds.count(64)(
        "texts of one account that wait for the embedded voice or model, or are being spoken",
        "单个账户在内置语音或本地模型中排队及合成中的文本数上限",
    )
    disk_reserve_bytes: int = kinds.whole(512 * 2**20, 0, 2**50)(
        "free space that new audio leaves on the data folder's file systems; 0: none",
        "数据目录所在磁盘须保留的可用空间（字节）；0 表示不保留",
    )
    channel_cooldown_s: float = kinds.seconds(10.0)(
        "how long the circuit of a failing channel stays open", "渠道熔断的持续时间（秒）"
    )
    drain_s: int = kinds.whole(0, 0, 3600)(
        "time after SIGTERM in which calls are still taken, while /readyz is 503",
        "收到 SIGTERM 后仍接受调用的时间（秒），期间 /readyz 返回 503",
    )
    shutdown_grace_s: float = kinds.seconds(20.0)(
        "time for open calls to finish after SIGTERM", "收到 SIGTERM 后等待进行中调用完成的时间（秒）"
    )
    lease_s: float = kinds.seconds(30.0, 600)(
        "lease of a compute node's job without a heartbeat", "计算节点任务在没有心跳时的租约时长（秒）"
    )
    beat_s: float = kinds.seconds(10.0, 200)(
        "interval of a compute node's heartbeats while it has a job", "计算节点处理任务时的心跳间隔（秒）"
    )
    chat_speech_wait_s: float = kinds.seconds(60.0)(
        "how long a chat that asks for speech waits for a compute node",
        "对话中的朗读请求等待计算节点的时间（秒）",
    )
    sweep_every_s: float = kinds.seconds(5.0, 60)(
        "interval of the sweep for calls open past their deadline", "清理超时调用的间隔（秒）"
    )
    audit_every_s: float = kinds.seconds(3600.0)("interval of the audit", "对账的间隔（秒）")

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
        return kinds.listed(self.cors_origins)

    @property
    def fair_try_s(self) -> float:
        """A timeout after less time than this doesn't count as a failure of a channel."""
        return min(self.upstream_idle_s, self.call_deadline_s / 2)

    @property
    def on_sqlite(self) -> bool:
        return not self.database_url

    @property
    def keys_in_files(self) -> bool:
        """Whether stored keys of channels are in files of one machine, beside which others may serve."""
        return not self.on_sqlite and not self.secret_key

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


SETTINGS = kinds.declared(Settings)


def variable(name: str) -> str:
    """The environment variable of a setting."""
    return PREFIX + name.upper()


def load(environ: Mapping[str, str], file: Path | None = None) -> tuple[Settings, list[Applied]]:
    """Reads and checks all settings. Raises ConfigError with one line about the first error."""
    secrets = [name for name, one in SETTINGS.items() if one.kind.secret and f"{name}_file" not in SETTINGS]
    environ = with_secret_files(environ, map(variable, secrets))
    _check_names(environ)
    path, from_file = _read_file(environ, file)
    from_environ = {name: environ[variable(name)] for name in SETTINGS if environ.get(variable(name))}
    # Overridden values of the file are checked too: the variable may be unset at the next start.
    in_file = {name: checked(f"{name} in {path}", name, raw) for name, raw in from_file.items()}
    in_environ = {name: checked(variable(name), name, raw) for name, raw in from_environ.items()}
    settings = Settings(**{**in_file, **in_environ})
    _check_together(settings)
    sources = dict.fromkeys(in_file, path) | dict.fromkeys(in_environ, "environment")
    return settings, [
        Applied(variable(name), one.kind.shown(getattr(settings, name)), sources.get(name, "default"), one)
        for name, one in SETTINGS.items()
    ]


def _read_file(environ: Mapping[str, str], file: Path | None) -> tuple[str, dict[str, Any]]:
    named = environ.get(CONFIG_VARIABLE, "")
    path = file or Path(named or DEFAULT_FILE)
    found = read_toml(path)
    if found is None:
        if named or file:
            raise ConfigError(f"{CONFIG_VARIABLE}: there is no file {path}.")
        return "", {}
    for name in found:
        if name not in SETTINGS:
            raise ConfigError(f"{path}: there is no setting {name!r}.{_nearest(name, SETTINGS)}")
    return str(path), found


def can_name_a_key(name: str) -> bool:
    """Whether a variable of this name may contain a channel's key. A name that begins with MYNA_ must begin
    with MYNA_KEY_: the others are checked, so that a misspelt setting is an error."""
    return not name.startswith(PREFIX) or name.startswith(KEY_PREFIX)


def _check_names(environ: Mapping[str, str]) -> None:
    """Raises ConfigError for an unknown variable with our prefix. An empty variable counts as not set."""
    ours = set(map(variable, SETTINGS)) | {CONFIG_VARIABLE}
    for name, value in environ.items():
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


def checked(label: str, name: str, raw: object) -> Any:
    """The value in its type. Raises ConfigError with the label, the required form, and the value. A secret is
    left out, a URL that may contain one, and a long value, which may be a key under a wrong name."""
    kind, shown = SETTINGS[name].kind, repr(raw)
    try:
        return kind.read(raw)
    except WrongValue as error:
        is_shown = not kind.secret and len(shown) <= SHOWN_CHARS and not re.search("[@?]", shown)
        raise ConfigError(f"{label}: {error}{f'; it is {shown}' if is_shown else ''}.") from None


def _check_together(settings: Settings) -> None:
    """Checks rules over several settings. Raises ConfigError."""
    if settings.workers > 1 and settings.on_sqlite:
        raise ConfigError("MYNA_WORKERS: more than one needs PostgreSQL; set MYNA_DATABASE_URL.")
    if settings.bodies_max_bytes < settings.body_max_bytes:
        raise ConfigError("MYNA_BODIES_MAX_BYTES: must be at least MYNA_BODY_MAX_BYTES.")
    if settings.metrics_port == settings.port:
        raise ConfigError("MYNA_METRICS_PORT: must not be MYNA_PORT.")
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


def usable_cores(root: Path = Path("/sys/fs/cgroup"), own: Path = Path("/proc/self/cgroup")) -> int:
    """How many cores this process may use: `taskset`, a cpuset, or the CPU quota of its cgroup or one above
    it, as of a container or a unit of systemd, may leave fewer."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    with contextlib.suppress(OSError):  # no such file before cgroup 2, as in the next
        root /= own.read_text().partition("0::/")[2].strip()
    for folder in (root, *root.parents):
        with contextlib.suppress(OSError, ValueError):  # "max" without a quota
            quota, period = (folder / "cpu.max").read_text().split()
            cores = min(cores, max(1, -(-int(quota) // int(period))))
    return cores

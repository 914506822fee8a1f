"""The operator's configuration: settings, channels and voices, stored in the database and cached per process.

A change applies in every process from its next call on, without a restart. To add a site setting, add a field
to SiteSettings, and run `make docs`.
"""

import logging
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from msgspec import Struct, structs

from myna import settings
from myna.errors import CommandError, DatabaseUnavailable
from myna.errors.sentences import WrongValue
from myna.lib import setting_kinds as kinds
from myna.lib.names import is_name
from myna.lib.setting_kinds import Applied
from myna.lib.times import zone_of
from myna.store.database import Database
from myna.store.queries import config as store
from myna.store.queries.config import Config
from myna.wire import openai

log = logging.getLogger(__name__)

DAY_MS = 86_400_000
MIB = 2**20
_SHOWN_CHARS = 40
_TOKENS = re.compile(r"[1-9][0-9]{0,8}")
_MOST = 10**12


def context_lengths(text: str) -> dict[str, int]:
    """The tokens by model of a text such as `svc-chat=8192,gpt-4o=128000`. Raises ValueError."""
    found = [pair.strip().rpartition("=") for pair in text.split(",") if pair.strip()]
    lengths = {name: tokens for name, _, tokens in found if name and not re.search(r"\s", name)}
    if len(lengths) < len(found) or not all(map(_TOKENS.fullmatch, lengths.values())):
        raise WrongValue("must be MODEL=TOKENS, several separated by commas, each model once")
    return {name: int(tokens) for name, tokens in lengths.items()}


@dataclass(frozen=True, eq=False)  # compared by identity: each charge looks up what follows from them
class SiteSettings:
    """The site settings: name with unit, kind with its default, and meaning."""

    tts_max_chars: int = kinds.whole(1000, 1, 100_000)(
        "characters of the longest text of a request", "单次请求文本的最大字符数"
    )
    openai_speech_max_chars: int = kinds.whole(4096, 1, 100_000)(
        "characters of the longest text of /openai/v1/audio/speech, if that is more",
        "/openai/v1/audio/speech 单次请求文本的最大字符数（大于 tts_max_chars 时生效）",
    )
    tts_max_sound_s: int = kinds.whole(1800, 1, 36_000)(
        "seconds of sound that one text may make", "单段文本可合成的最长音频（秒）"
    )
    owner: str = kinds.Kind(
        "myna", "must be 1 to 100 printable characters", lambda value: is_name(value, 100)
    )("the owned_by label of GET /v1/models", "GET /v1/models 返回的 owned_by 标签")
    language: str = kinds.word("zh", "en")(
        "the language of status texts: zh or en", "状态文本的语言：zh 或 en"
    )
    chat_units: int = kinds.whole(1, 0, 1_000_000)("units a chat call costs", "每次对话调用的点数")
    tts_units: int = kinds.whole(1, 0, 1_000_000)("units a speech call costs", "每次语音合成调用的点数")
    transcription_units: int = kinds.whole(1, 0, 1_000_000)(
        "units a transcription costs", "每次语音转写调用的点数"
    )
    stream_begin_s: int = kinds.whole(10, 0, 600)(
        "seconds until a stream that has no event yet begins with a comment; 0: never",
        "流式响应在尚无事件时，多少秒后先发送一条注释；0 表示不发送",
    )
    broken_stream: str = kinds.word("refund", "keep")(
        "units of a stream that its channel breaks off: refund or keep",
        "渠道中断流式响应时的点数：refund（退还）或 keep（照常扣费）",
    )
    hosted_tools: str = kinds.word("ignore", "refuse")(
        "tools of a response that nothing here can run, such as web_search: ignore or refuse",
        "Responses 请求中本站无法执行的工具（如 web_search）：ignore（忽略）或 refuse（拒绝）",
    )
    context_lengths: str = kinds.read_by(context_lengths)(
        "tokens that models take, in GET /openai/v1/models: MODEL=TOKENS, …",
        "GET /openai/v1/models 返回的模型上下文长度：模型=token 数，多个用英文逗号分隔",
    )
    key_rpm: int = kinds.whole(0, 0, _MOST)(
        "calls of a key in a minute; 0: no limit", "每个密钥每分钟的调用次数；0 表示不限"
    )
    key_concurrent: int = kinds.whole(0, 0, _MOST)(
        "open calls of a key; 0: no limit", "每个密钥的并发调用数；0 表示不限"
    )
    key_units_per_day: int = kinds.whole(0, 0, _MOST)(
        "units of a key in 24 h; 0: no limit", "每个密钥 24 小时内的点数；0 表示不限"
    )
    account_rpm: int = kinds.whole(0, 0, _MOST)(
        "calls of an account in a minute; 0: no limit", "每个账户每分钟的调用次数；0 表示不限"
    )
    account_concurrent: int = kinds.whole(0, 0, _MOST)(
        "open calls of an account; 0: no limit", "每个账户的并发调用数；0 表示不限"
    )
    account_units_per_day: int = kinds.whole(0, 0, _MOST)(
        "units of an account in 24 h; 0: no limit", "每个账户 24 小时内的点数；0 表示不限"
    )
    voice_recipes: str = kinds.word("refuse", "accept")(
        "a recipe of voices as the voice of a request: refuse or accept",
        "请求中用混合配方指定音色时：refuse（拒绝）或 accept（接受）",
    )
    task_deadline_s: int = kinds.whole(120, 1, 86_400)(
        "seconds from the order to a task's deadline", "语音任务从提交到超时的时间（秒）"
    )
    audio_keep_days: int = kinds.whole(90, 0, 36_500)(
        "days until audio is removed; 0 keeps it", "音频保留天数；0 表示一直保留"
    )
    responses_keep_days: int = kinds.whole(0, 0, 36_500)(
        "days until a stored response is removed; 0 stores none", "Responses 存储天数；0 表示不存储"
    )
    account_storage_mib: int = kinds.whole(1024, 0, 2**30)(
        "MiB an account may store; 0: no quota", "每个账户的存储配额（MiB）；0 表示不限"
    )
    openai_voices: str = kinds.read_by(openai.voice_mapping, openai.DEFAULT_VOICES)(
        "the voices that OpenAI's names mean: NAME=VOICE_ID, …",
        "OpenAI 音色名称的对应关系：名称=音色 ID，多个用英文逗号分隔",
    )
    time_zone: str = kinds.read_by(zone_of, "UTC")(
        "the time zone of days and months in reports and of the periods of caps",
        "报表按天、按月统计及限额周期所用的时区",
    )


OF_PROCESS = "{name} is a setting of the process, not of the site: set {variable}, or {name} in myna.toml."
SETTINGS = kinds.declared(SiteSettings)


class UnreadableSetting(Struct, frozen=True):
    """A stored site setting that this build can't parse. Its default applies."""

    name: str
    value: str
    why: ValueError

    def __str__(self) -> str:
        return f"{self.name} {self.why}, it is {self.value[:_SHOWN_CHARS]!r}"


class ConfigCache:
    """This process's copy of the configuration: `current`, and its site settings parsed as `settings`."""

    current: Config

    def __init__(self, db: Database, config: Config) -> None:
        self._db = db
        self.on_load: Callable[[Config], Awaitable[None]] | None = None
        """Called with a configuration before it replaces the copy."""
        self._reported: tuple[int, list[str]] = (0, [])
        self._replace(config)

    @classmethod
    async def read(cls, db: Database) -> "ConfigCache":
        return cls(db, await store.load(db))

    async def refresh(self) -> None:
        """Reads the configuration. It replaces the copy even if it is older: the database may have been
        restored. If another refresh has replaced the copy concurrently, only a newer version does."""
        before = self.current
        config = await store.load(self._db)
        if self.on_load:
            await self.on_load(config)
        if self.current is before or config.version > self.current.version:
            self._replace(config)

    async def at(self, version: int) -> None:
        """Refreshes the copy unless it has this version, which a key check returned."""
        if self.current.version != version:
            await self.refresh()

    async def with_nodes(self) -> Config:
        """The configuration with the current voices of the compute nodes. Raises DatabaseUnavailable."""
        known = self.current.nodes_version
        try:
            if known and known != await store.nodes_version(self._db):
                nodes = await store.load_nodes(self._db)
                self.current = structs.replace(self.current, **structs.asdict(nodes))
        except self._db.unavailable:
            raise DatabaseUnavailable from None
        return self.current

    def _replace(self, config: Config) -> None:
        """Logs the settings that can't be parsed, once per version of the configuration."""
        self.current = config
        self.settings = settings_of(config)
        failed = unreadable(config)
        texts = [str(one) for one in failed]
        if self._reported != (config.version, texts):
            self._reported = config.version, texts
            for one in failed:
                default = getattr(self.settings, one.name)
                log.error("the stored site setting %s; its default applies: %r", one, default)


def settings_of(config: Config) -> SiteSettings:
    """The stored values over the defaults. A value that can't be parsed counts as not stored."""
    return SiteSettings(**_parsed(config)[0])


def unreadable(config: Config) -> list[UnreadableSetting]:
    """The stored values that this build can't parse, by name."""
    return _parsed(config)[1]


def _parsed(config: Config) -> tuple[dict[str, Any], list[UnreadableSetting]]:
    values: dict[str, Any] = {}
    failed: list[UnreadableSetting] = []
    for name, text in sorted(config.settings.items()):
        if name not in SETTINGS:
            continue
        try:
            values[name] = SETTINGS[name].kind.read(text)
        except ValueError as error:
            failed.append(UnreadableSetting(name, text, error))
    return values, failed


def check_name(name: str) -> None:
    """Raises CommandError if there is no site setting of this name."""
    of_process = name.removeprefix(settings.PREFIX).lower()
    if of_process in settings.SETTINGS:
        raise CommandError(OF_PROCESS, name=of_process, variable=settings.variable(of_process))
    if name not in SETTINGS:
        raise CommandError(
            "There is no site setting {name!r}; there are {settings}.",
            name=name,
            settings=", ".join(SETTINGS),
        )


def check(name: str, value: str) -> None:
    """Raises CommandError if there is no site setting of this name, or not with this value."""
    check_name(name)
    try:
        SETTINGS[name].kind.read(value)
    except ValueError as error:
        raise CommandError(
            "{name}: {error}; it is {value!r}.", name=name, error=error, value=value[:_SHOWN_CHARS]
        ) from None


def applied(config: Config) -> list[Applied]:
    """Every site setting."""
    stored, failed = _parsed(config)
    sources = dict.fromkeys(stored, "database") | {one.name: "unreadable" for one in failed}
    values = SiteSettings(**stored)
    return [
        Applied(name, getattr(values, name), sources.get(name, "default"), one)
        for name, one in SETTINGS.items()
    ]

"""Settings: their sources, and that each invalid one is one clear line before anything starts."""

import json
from pathlib import Path

import pytest

from myna import settings
from myna.errors import ConfigError
from myna.settings import SETTINGS, Settings, load, usable_cores

ANY = "0.0.0.0"  # noqa: S104 - nothing is bound here
SECRET = "s3cr3t-w0rd"

WRONG = {
    "data": [" "],
    "host": [" "],
    "port": ["0", "65536", "http", "80.5", "-1", "٨٠"],
    "public_url": [
        "myna.example",
        "ftp://x",
        "http://x/",
        "http://x/sub",
        "http://",
        "http://x:port",
        "http://u@x",
    ],
    "cors_origins": [
        "*",
        "app.example.com",
        "https://x/",
        "https://x, ftp://y",
        "https://x/path",
        "https://a.*.x",
    ],
    "trusted_proxies": ["*", "proxy", "10.0.0.1/8", "0.0.0.0/0", "::/0", "10.0.0.0/33", "10.0.0.1 10.0.0.2"],
    "database_url": ["mysql://x", "postgresql://", "sqlite:", f"postgresql://u:{SECRET}/x@h/db", f"{SECRET}"],
    "postgresql_connections": ["7", "1001", "many"],
    "storage": ["s4://bucket", "s3://", "bucket", "s3://key:secret@bucket", "s3://bucket?x=1"],
    "uploads_redirect_s": ["-1", "604801"],
    "workers": ["0", "257", "two", "2"],
    "chat_url": [
        "parrot",
        "http://",
        "http://x y",
        "http://x/v1?key=1",
        "http://x:99999",
        "x",
        "http://[::1",
        "http://h:0",
        "//h",
    ],
    "chat_key": [f"{SECRET}\n", f"{SECRET} x", f"{SECRET}é"],
    "chat_model": ["a\nb"],
    "speech": ["festival", "sherpa", "sherpa:model", "http://", "https://x/v1#y", "espeak "],
    "secret_key": [SECRET[:31], f"{SECRET * 4},{SECRET[:31]}", "é" * 32],
    "metrics_port": ["-1", "65536", "8080"],
    "metrics_host": ["a\nb"],
    "metrics_token": [f"{SECRET} x", f"{SECRET}é"],
    "log_level": ["loud", "INFO"],
    "oidc_issuer": [
        "idp.example",
        "http://idp.example",
        "https://idp.example/?a=1",
        "https://me@idp.example",
    ],
    "oidc_scopes": ["email", "openid  email", "openid\temail", 'openid "x"'],
    "oidc_link_by_email": ["yes", "ON"],
    "body_max_bytes": ["0", "-5", "1MB", str(2**35)],
    "bodies_max_bytes": ["0", str(2**20 - 1), "1MB"],
    "body_timeout_s": ["0", "-1", "nan", "inf", "soon"],
    "queue_max": ["0", "1.5"],
    "lease_s": ["0", "601", "x"],
    "beat_s": ["0", "201", "x", "15.5"],
}


@pytest.fixture(autouse=True)
def no_file_around(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def toml(text: str) -> Path:
    file = Path("myna.toml")
    file.write_text(text, encoding="utf-8")
    return file


def test_without_an_environment_and_a_file_the_defaults_apply() -> None:
    assert load({})[0] == Settings()


@pytest.mark.parametrize("name", WRONG)
def test_the_error_of_an_environment_value_names_it_without_secrets(name: str) -> None:
    variable = settings.PREFIX + name.upper()
    for value in WRONG[name]:
        with pytest.raises(ConfigError) as raised:
            load({variable: value})
        line = str(raised.value)
        assert line.startswith(f"{variable}: ")
        assert line.isprintable()
        assert SECRET not in line


@pytest.mark.parametrize("name", WRONG)
def test_the_error_of_a_value_of_another_type_in_the_file_names_it(name: str) -> None:
    toml(f"{name} = [1]")
    value = "" if SETTINGS[name].kind.secret else r"; it is \[1\]"
    with pytest.raises(ConfigError, match=rf"^{name} in myna\.toml: (must|contains) [^;]*(; .*)?{value}\.$"):
        load({})


@pytest.mark.parametrize(
    ("name", "value", "error"),
    [
        ("PORT", "abc", "must be a whole number from 1 to 65535; it is 'abc'."),
        ("LEASE_S", "soon", "must be a number of seconds greater than 0 and at most 600; it is 'soon'."),
        ("LOG_LEVEL", "loud", "must be debug, info, warning or error; it is 'loud'."),
        ("HOST", " ", "must not be blank; it is ' '."),
        ("CHAT_URL", "parrot", "must be parrot:, http://… or https://…, without a query; it is 'parrot'."),
    ],
)
def test_the_error_of_a_value_has_the_expected_form_and_the_value(name: str, value: str, error: str) -> None:
    with pytest.raises(ConfigError) as raised:
        load({f"MYNA_{name}": value})
    assert str(raised.value) == f"MYNA_{name}: {error}"


@pytest.mark.parametrize(
    ("name", "raw"),
    [
        ("CHAT_URL", "http://h/v1?key=s3cret"),
        ("SPEECH", "https://host/v1?api-key=sk-s3cret"),
        ("PUBLIC_URL", "https://u:s3cret@h/"),
        ("LOG_LEVEL", "sk-s3cret0123456789"),
        ("PORT", "myna_s3cret0123456789"),
    ],
)
def test_an_error_does_not_repeat_what_may_be_a_secret(name: str, raw: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load({f"MYNA_{name}": raw})
    assert f"MYNA_{name}: must be" in str(caught.value)
    assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize("hidden", [False, True], ids=["alone", "hidden by the environment"])
@pytest.mark.parametrize("name", [name for name in WRONG if isinstance(getattr(Settings(), name), str)])
def test_the_error_of_a_value_in_the_file_names_it_without_secrets(name: str, hidden: bool) -> None:
    right = getattr(Settings(), name) or "parrot:"
    environ = {settings.PREFIX + name.upper(): right} if hidden else {}
    for value in WRONG[name]:
        toml(f"{name} = {json.dumps(value)}")
        with pytest.raises(ConfigError, match=rf"^{name} in myna\.toml: ") as raised:
            load(environ)
        assert str(raised.value).isprintable()
        assert SECRET not in str(raised.value)


@pytest.mark.parametrize(
    "right",
    [
        {"MYNA_PUBLIC_URL": "https://myna.example:8443"},
        {"MYNA_DATABASE_URL": "postgresql://u:p%2Fw@h:5432/db"},
        {"MYNA_DATABASE_URL": "postgres://a:1,[::1]:2/db"},
        {"MYNA_DATABASE_URL": "postgresql:///db?host=/run/postgresql"},
        {"MYNA_CHAT_URL": "http://user:word@127.0.0.1:1/v1"},
        {"MYNA_CHAT_URL": "parrot:"},
        {"MYNA_SPEECH": "https://[::1]/v1/"},
        {"MYNA_SPEECH": "none"},
    ],
    ids=lambda right: next(iter(right.values())),
)
def test_a_valid_value_is_accepted_unchanged(right: dict[str, str]) -> None:
    chosen, _ = load(right)
    ((variable, value),) = right.items()
    assert getattr(chosen, variable.removeprefix("MYNA_").lower()) == value


def test_more_workers_than_cores_or_on_sqlite_are_refused() -> None:
    with pytest.raises(ConfigError, match="PostgreSQL"):
        load({"MYNA_WORKERS": "2"})
    with pytest.raises(ConfigError, match="cores"):
        load({"MYNA_WORKERS": "256", "MYNA_DATABASE_URL": "postgresql://h/db"})


def test_the_environment_overrides_the_file_and_the_file_the_default() -> None:
    toml('port = 81\nhost = "::1"')
    chosen, sources = load({"MYNA_PORT": "82", "MYNA_QUEUE_MAX": ""})
    assert (chosen.port, chosen.host, chosen.queue_max) == (82, "::1", Settings().queue_max)
    printed = [
        (one.name, one.source) for one in sources if one.name in ("MYNA_PORT", "MYNA_HOST", "MYNA_DATA")
    ]
    assert printed == [("MYNA_DATA", "default"), ("MYNA_HOST", "myna.toml"), ("MYNA_PORT", "environment")]


def test_a_configured_settings_file_must_exist() -> None:
    Path("other.toml").write_text("port = 83")
    assert load({"MYNA_CONFIG": "other.toml"})[0].port == 83
    for wrong in ("nowhere.toml", "."):
        with pytest.raises(ConfigError):
            load({"MYNA_CONFIG": wrong})


@pytest.mark.parametrize("text", ["port = ", "prot = 8080", "port = 1\nport = 2", 'host = ""'])
def test_an_invalid_settings_file_is_a_one_line_error(text: str) -> None:
    toml(text)
    with pytest.raises(ConfigError) as raised:
        load({})
    assert str(raised.value).isprintable()


def test_a_settings_file_in_another_encoding_is_a_one_line_error() -> None:
    Path("myna.toml").write_bytes(b'chat_model = "\xff"')
    with pytest.raises(ConfigError, match="is not UTF-8 from byte 14 on"):
        load({})


def test_the_representation_of_the_settings_has_no_secret() -> None:
    """That of a component, which an error may show, has that of its settings."""
    given = Settings(chat_url="https://user:hidden@up.example/v1", chat_key="hidden", secret_key="hidden")
    assert "hidden" not in repr(given)


def test_secrets_are_masked_and_urls_shown_without_login() -> None:
    url = f"http://user:{SECRET}@h:1/v1"
    environ = {
        "MYNA_CHAT_KEY": SECRET,
        "MYNA_SPEECH_KEY": SECRET,
        "MYNA_DATABASE_URL": f"postgresql://u:{SECRET}@h/db",
        "MYNA_CHAT_URL": url,
        "MYNA_SPEECH": url,
    }
    shown = {source.name: source.value for source in load(environ)[1]}
    assert SECRET not in repr(shown)
    assert shown["MYNA_CHAT_KEY"] == shown["MYNA_DATABASE_URL"] == "***"
    assert shown["MYNA_CHAT_URL"] == shown["MYNA_SPEECH"] == "http://***@h:1/v1"


@pytest.mark.parametrize(
    ("environ", "base"),
    [
        ({}, "http://127.0.0.1:8080"),
        ({"MYNA_HOST": ANY}, "http://127.0.0.1:8080"),
        ({"MYNA_HOST": "::"}, "http://[::1]:8080"),
        ({"MYNA_HOST": "fe80::1"}, "http://[fe80::1]:8080"),
        ({"MYNA_HOST": ANY, "MYNA_PUBLIC_URL": "https://m.example"}, "https://m.example"),
    ],
)
def test_the_base_url_is_the_public_or_the_bound_address(environ: dict[str, str], base: str) -> None:
    assert load(environ)[0].base_url == base


@pytest.mark.parametrize(("quota", "cores"), [("150000 100000", 2), ("50000 100000", 1), ("max 100000", 999)])
def test_the_cpu_quota_of_container_or_unit_limits_the_cores(tmp_path: Path, quota: str, cores: int) -> None:
    unlimited, own, unit = usable_cores(tmp_path / "none"), tmp_path / "own", tmp_path / "system.slice"
    own.write_text("1:cpu:/elsewhere\n0::/system.slice/myna.service\n")
    (unit / "myna.service").mkdir(parents=True)
    (unit / "myna.service" / "cpu.max").write_text("max 100000\n")
    for folder in (
        unit,
        tmp_path,
    ):  # the quota of a slice, then that of a container, which sees its own as root
        (folder / "cpu.max").write_text(f"{quota}\n")
        assert usable_cores(tmp_path, own) == min(cores, unlimited)
        (folder / "cpu.max").unlink()


def test_a_secret_may_be_in_a_file(tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_text(f"{SECRET}\n")
    given = {"MYNA_CHAT_KEY_FILE": str(file)}
    assert load(given)[0].chat_key == SECRET
    for wrong in (given | {"MYNA_CHAT_KEY": "other"}, {"MYNA_CHAT_KEY_FILE": str(tmp_path / "none")}):
        with pytest.raises(ConfigError, match="MYNA_CHAT_KEY_FILE: "):
            load(wrong)
    with pytest.raises(ConfigError, match="there is no such setting"):
        load({"MYNA_CHAT_MODEL_FILE": str(file)})

"""A command uses the database of the service and prints its name. It never creates a database."""

import pytest

from tests.cli.conftest import SAID_DATABASE, Cli
from tests.rig.service import ServiceMaker

ON_THE_DATABASE = [
    ("audit",),
    ("account", "list"),
    ("account", "add", "a"),
    ("key", "list", "a"),
    ("channel", "list"),
    ("channel", "add", "chat", "a", "parrot:"),
    ("voice", "list"),
    ("node", "list"),
    ("node", "enroll", "n"),
    ("settings", "list"),
    ("settings", "set", "chat_units", "2"),
]


@pytest.mark.parametrize("command", ON_THE_DATABASE, ids=" ".join)
def test_a_command_creates_no_database_and_names_the_folder(bare_cli: Cli, command: tuple[str, ...]) -> None:
    data = bare_cli.service.folder / "data"
    line = bare_cli.refused(*command)
    assert line.startswith(f"There is no database in {data} (set by MYNA_DATA). ")
    assert list(data.iterdir()) == []


def test_the_setting_that_selects_the_folder_is_named(bare_cli: Cli) -> None:
    assert "data (since MYNA_DATA is not set)" in bare_cli.refused("audit", MYNA_DATA="")
    (bare_cli.service.folder / "myna.toml").write_text('data = "elsewhere"')
    assert "elsewhere (set by data in myna.toml)" in bare_cli.refused("audit", MYNA_DATA="")
    assert not (bare_cli.service.folder / "elsewhere").exists()


def test_an_empty_database_of_a_server_is_refused_too(bare_cli: Cli, postgres_url: str) -> None:
    line = bare_cli.refused("account", "list", MYNA_DATABASE_URL=postgres_url)
    assert "is empty: there is no Myna in it" in line
    bare_cli.lines("migrate", MYNA_DATABASE_URL=postgres_url)
    assert bare_cli.lines("account", "list", MYNA_DATABASE_URL=postgres_url)


def test_a_command_in_another_folder_than_the_services_is_refused(make_service: ServiceMaker) -> None:
    """A key that was issued into another database would be refused by the service."""
    service = make_service(chat_url="parrot:", speech="none").start()
    ended = service.command("account", "add", "me", env={"MYNA_DATA": "elsewhere"})
    assert ended.code == 1 and str(service.folder / "elsewhere") in ended.stderr
    assert service.command("account", "add", "me").code == 0


@pytest.mark.parametrize("command", ON_THE_DATABASE[:2], ids=" ".join)
def test_the_database_is_named_on_stderr_and_not_with_json(cli: Cli, command: tuple[str, ...]) -> None:
    ended = cli.service.command(*command)
    assert ended.stderr == f"{SAID_DATABASE}{cli.service.folder / 'data' / 'myna.sqlite'}\n"
    assert cli.service.command(*command, "--json").stderr == ""


def test_a_database_url_is_printed_without_user_and_password(bare_cli: Cli, postgres_books_url: str) -> None:
    ended = bare_cli.service.command("account", "list", env={"MYNA_DATABASE_URL": postgres_books_url})
    assert ended.stderr == SAID_DATABASE + postgres_books_url.rpartition("@")[2] + "\n"


@pytest.mark.parametrize(
    ("variable", "nearest"),
    [
        ("MYNA_DATABSE_URL", " Did you mean MYNA_DATABASE_URL?"),
        ("MYNA_CHAT_KYE", " Did you mean MYNA_CHAT_KEY?"),
        ("MYNA_X", ""),
    ],
)
def test_an_unknown_variable_is_refused(cli: Cli, variable: str, nearest: str) -> None:
    for command in (("serve",), ("account", "list"), ("migrate",)):
        line = cli.misused(*command, **{variable: "s3cr3t"})
        assert line.startswith(f"{variable}: there is no such setting.{nearest} A variable that contains")
        assert "s3cr3t" not in line


def test_variables_of_channels_and_tests_and_empty_ones_are_allowed(cli: Cli) -> None:
    cli.lines("account", "list", MYNA_KEY_VENDOR="k", MYNA_TEST_EXAMPLES="1", MYNA_OLD="")


def test_a_misspelt_key_of_the_file_is_refused_with_the_nearest_name(cli: Cli) -> None:
    (cli.service.folder / "myna.toml").write_text('chat_modle = "x"')
    assert cli.misused("audit") == "myna.toml: there is no setting 'chat_modle'. Did you mean chat_model?"

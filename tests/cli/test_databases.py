"""A command uses the database of the service and prints its name; it never creates one. An unusable database
is one line with its message, without the password of its URL."""

import asyncio
import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import asyncpg

from tests.cli.conftest import SAID_DATABASE, Cli
from tests.rig.postgres import Postgres

SECRET = "s3cr%3Ft"
COMMANDS = ("serve", "migrate", "audit")


def test_a_database_that_does_not_exist(bare_cli: Cli, postgres: Postgres) -> None:
    url = postgres.url.rpartition("/")[0] + "/nowhere"
    place = url.partition("@")[2]
    for command in COMMANDS:
        line = bare_cli.refused(command, MYNA_DATABASE_URL=url)
        assert line == f'The database {place} can\'t be opened: database "nowhere" does not exist.'


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


def test_a_command_creates_no_database_and_names_the_folder(bare_cli: Cli) -> None:
    data = bare_cli.service.folder / "data"
    for command in ON_THE_DATABASE:
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


def test_the_database_is_named_on_stderr_and_not_with_json(cli: Cli) -> None:
    for command in (("audit",), ("account", "list")):
        ended = cli.service.command(*command)
        assert ended.stderr == f"{SAID_DATABASE}{cli.service.folder / 'data' / 'myna.sqlite'}\n"
        assert cli.service.command(*command, "--json").stderr == ""


def test_a_database_url_is_printed_without_user_and_password(bare_cli: Cli, postgres_books_url: str) -> None:
    ended = bare_cli.service.command("account", "list", env={"MYNA_DATABASE_URL": postgres_books_url})
    assert ended.stderr == SAID_DATABASE + postgres_books_url.rpartition("@")[2] + "\n"


def test_an_unknown_variable_is_refused(cli: Cli) -> None:
    for variable, nearest in (("MYNA_CHAT_KYE", " Did you mean MYNA_CHAT_KEY?"), ("MYNA_X", "")):
        for command in (("serve",), ("account", "list"), ("migrate",)):
            line = cli.misused(*command, **{variable: "s3cr3t"})
            assert line.startswith(f"{variable}: there is no such setting.{nearest} A variable that contains")
            assert "s3cr3t" not in line


def test_variables_of_channels_and_tests_and_empty_ones_are_allowed(cli: Cli) -> None:
    cli.lines("account", "list", MYNA_KEY_VENDOR="k", MYNA_TEST_EXAMPLES="1", MYNA_OLD="")


def test_a_misspelt_key_of_the_file_is_refused_with_the_nearest_name(cli: Cli) -> None:
    (cli.service.folder / "myna.toml").write_text('chat_modle = "x"')
    assert cli.misused("audit") == "myna.toml: there is no setting 'chat_modle'. Did you mean chat_model?"


@contextmanager
def _server_that_refuses(text: str) -> Iterator[int]:
    """The port of a server that answers every login with an error, as PostgreSQL sends it."""
    fields = b"SFATAL\0VFATAL\0C28P01\0M" + text.encode() + b"\0\0"
    refusal = b"E" + struct.pack("!i", len(fields) + 4) + fields

    def serve(listening: socket.socket) -> None:
        while True:
            try:
                client, _ = listening.accept()
            except OSError:
                return
            with client:
                client.settimeout(10)
                if client.recv(1024)[4:8] == struct.pack("!i", 80877103):  # asks for TLS first
                    client.sendall(b"N")
                    client.recv(1024)
                client.sendall(refusal)

    with socket.create_server(("127.0.0.1", 0)) as listening:
        threading.Thread(target=serve, args=(listening,), daemon=True).start()
        yield listening.getsockname()[1]
        listening.shutdown(socket.SHUT_RDWR)


def test_a_wrong_password(bare_cli: Cli) -> None:
    said = f'password authentication failed for user "myna", not s3cr?t or {SECRET}'
    with _server_that_refuses(said) as port:
        line = bare_cli.refused(
            "migrate", MYNA_DATABASE_URL=f"postgresql://myna:{SECRET}@127.0.0.1:{port}/site"
        )
    why = 'password authentication failed for user "myna", not *** or ***'
    assert line == f"The database 127.0.0.1:{port}/site can't be opened: {why}."


def test_a_role_without_rights(bare_cli: Cli, postgres_books_url: str) -> None:
    async def execute(statement: str) -> None:
        connection = await asyncpg.connect(postgres_books_url)
        await connection.execute(statement)
        await connection.close()

    asyncio.run(execute("CREATE ROLE poor LOGIN"))
    place = postgres_books_url.partition("@")[2]
    line = bare_cli.refused("migrate", MYNA_DATABASE_URL=f"postgresql://poor@{place}")
    assert "permission denied for schema public" in line
    asyncio.run(execute("DROP ROLE poor"))


def test_a_host_that_has_no_address(bare_cli: Cli) -> None:
    line = bare_cli.refused("migrate", MYNA_DATABASE_URL=f"postgresql://myna:{SECRET}@no.invalid/site")
    assert line.startswith("The database no.invalid/site can't be opened: ")
    assert "gaierror" not in line and SECRET not in line


def test_a_file_that_is_no_database(bare_cli: Cli) -> None:
    file = bare_cli.service.folder / "data" / "myna.sqlite"
    file.write_bytes(b"no database at all, whatever its name says; " * 100)
    for command in COMMANDS:
        line = bare_cli.refused(command)
        assert line == f"The database {file} can't be opened: file is not a database."

"""Errors of an unusable database: one line with its message, without the password of its URL."""

import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.cli.conftest import Cli

SECRET = "s3cr%3Ft"
COMMANDS = ("serve", "migrate", "audit")


@pytest.mark.parametrize("command", COMMANDS)
def test_a_database_that_does_not_exist(bare_cli: Cli, postgres_url: str, command: str) -> None:
    url = f"{postgres_url}_nowhere"
    line = bare_cli.refused(command, MYNA_DATABASE_URL=url)
    name = url.rpartition("/")[2]
    place = url.partition("@")[2]
    assert line == f'The database {place} can\'t be opened: database "{name}" does not exist.'


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


def test_a_host_that_has_no_address(bare_cli: Cli) -> None:
    line = bare_cli.refused("migrate", MYNA_DATABASE_URL=f"postgresql://myna:{SECRET}@no.invalid/site")
    assert line.startswith("The database no.invalid/site can't be opened: ")
    assert "gaierror" not in line and SECRET not in line


@pytest.mark.parametrize("command", COMMANDS)
def test_a_file_that_is_no_database(bare_cli: Cli, command: str) -> None:
    file = bare_cli.service.folder / "data" / "myna.sqlite"
    file.write_bytes(b"no database at all, whatever its name says; " * 100)
    line = bare_cli.refused(command)
    assert line == f"The database {file} can't be opened: file is not a database."

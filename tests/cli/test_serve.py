"""What keeps `myna serve` from starting, each told in one line."""

import json
import socket
from pathlib import Path

import pytest

from tests.cli.conftest import Desk
from tests.rig.service import ServiceMaker
from tests.test_settings import SECRET, WRONG


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_setting_is_one_line_and_exit_2_before_anything_starts(desk: Desk, name: str) -> None:
    variable = f"MYNA_{name.upper()}"
    line = desk.misused("serve", **{variable: WRONG[name][0]})
    assert line.startswith(f"{variable}: ")
    assert SECRET not in line
    assert list((desk.service.folder / "data").iterdir()) == []


@pytest.mark.parametrize("host", ["no such host", "no-such-host.invalid", "x" * 300, "192.0.2.1", "::2"])
def test_a_host_that_cannot_be_is_one_line_and_exit_2(desk: Desk, host: str) -> None:
    assert desk.misused("serve", MYNA_HOST=host).startswith("MYNA_HOST: ")


def test_a_data_folder_that_cannot_be_is_one_line_and_exit_2(desk: Desk, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    for data in ("file", "file/below"):
        line = desk.misused("serve", MYNA_DATA=str(tmp_path / data))
        assert line.startswith("MYNA_DATA: ")


def test_a_port_in_use_is_one_line_and_exit_1(desk: Desk) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        line = desk.refused("serve", MYNA_PORT=str(port))
    assert line == f"Can't listen on 127.0.0.1 port {port}: Address already in use."


def test_a_database_that_is_away_is_one_line_and_exit_1_without_its_password(desk: Desk) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    url = f"postgresql://user:{SECRET}@127.0.0.1:{port}/myna"
    for command in ("serve", "migrate", "audit"):
        line = desk.refused(command, MYNA_DATABASE_URL=url)
        assert line == f"The database 127.0.0.1:{port}/myna can't be opened: Connection refused."


def test_nothing_of_an_address_is_told_but_its_place(desk: Desk) -> None:
    url = f"postgresql://user:{SECRET}@127.0.0.1:1,[::1]:1/my%20db?password={SECRET}&sslkey=/{SECRET}"
    line = desk.refused("audit", MYNA_DATABASE_URL=url)
    assert line.startswith("The database 127.0.0.1:1,[::1]:1/my%20db can't be opened: ")
    assert SECRET not in line
    assert "user" not in line


def test_a_server_that_is_ready_says_where_it_listens_and_how_it_is_reached(
    make_service: ServiceMaker,
) -> None:
    env = {"MYNA_PUBLIC_URL": "https://myna.example"}
    running = make_service(chat_url="parrot:", speech="none", env=env).start()
    port = running.root_url.rsplit(":", 1)[1]
    told = [
        line["message"] for line in map(json.loads, running.stderr.splitlines()) if "ready" in line["message"]
    ]
    assert told == [f"ready: listening on 127.0.0.1 port {port}; base URL https://myna.example/v1"]
    assert running.stop() == 0


def test_a_second_server_on_the_same_folder_is_one_line_and_exit_1(
    desk: Desk, make_service: ServiceMaker
) -> None:
    running = make_service(chat_url="parrot:", speech="none").start()
    data = str(running.folder / "data")
    line = desk.refused("serve", MYNA_DATA=data)
    assert line == f"Another process serves from {data}; stop it first."
    assert running.stop() == 0

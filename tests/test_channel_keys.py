"""Keys that the operator entered: private files, for one server each."""

import logging
from pathlib import Path

import pytest

from myna.channel_keys import ChannelKeys
from myna.errors import CommandError

URL = "https://up.example/v1"
KEY = "sk-an-entered-key"


@pytest.fixture
def keys(tmp_path: Path) -> ChannelKeys:
    return ChannelKeys(tmp_path)


@pytest.mark.parametrize("name", ["up", "a/b", "..", ".", "渠道", "../../x", " a b "])
def test_a_key_is_in_a_private_file_of_its_folder(keys: ChannelKeys, tmp_path: Path, name: str) -> None:
    keys.store(name, URL, KEY)
    (file,) = (tmp_path / "secrets").iterdir()
    assert (file.stat().st_mode & 0o777, file.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    assert keys.read(name, URL) == KEY
    assert keys.remove(name)
    assert not list((tmp_path / "secrets").iterdir())
    assert (keys.read(name, URL), keys.remove(name)) == ("", False)


def test_a_key_is_for_the_server_for_which_it_was_entered(keys: ChannelKeys) -> None:
    keys.store("up", URL, KEY)
    assert keys.read("up", "HTTPS://UP.example/other/v2") == KEY
    for other in ("https://evil.example/v1", "http://up.example/v1", "https://up.example:444/v1"):
        assert keys.read("up", other) == ""


@pytest.mark.parametrize("key", ["", "with space", "line\nbreak", "schlüssel", "x" * 4097])
def test_a_key_that_no_header_can_have_is_refused_and_not_repeated(keys: ChannelKeys, key: str) -> None:
    with pytest.raises(CommandError) as refused:
        keys.store("up", URL, key)
    assert not key or key not in str(refused.value)
    assert keys.read("up", URL) == ""


def test_a_name_that_is_too_long_for_a_file_is_refused(keys: ChannelKeys) -> None:
    with pytest.raises(CommandError, match="too long for a file"):
        keys.store("渠" * 100, URL, KEY)


def test_a_damaged_file_is_no_key_and_is_logged(
    keys: ChannelKeys, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    keys.store("up", URL, KEY)
    next((tmp_path / "secrets").iterdir()).write_bytes(b'{"key": "sk-an-entered')
    with caplog.at_level(logging.ERROR):
        assert keys.read("up", URL) == ""
    assert "the stored key of channel 'up' can't be read: it is damaged" in caplog.text
    assert "sk-an" not in caplog.text


def test_a_folder_that_cannot_be_written_is_an_error_of_one_line(tmp_path: Path) -> None:
    (tmp_path / "secrets").write_text("a file")
    with pytest.raises(CommandError, match="The key can't be stored in"):
        ChannelKeys(tmp_path).store("up", URL, KEY)

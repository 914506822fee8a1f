"""Channels: their order, their circuits, which are valid, and the keys that were entered for them."""

import logging
import os
import random
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from myna.actions import Change
from myna.actions.channels import AddChannel, RekeyChannels, check_row
from myna.channels import keys as channel_keys
from myna.channels.channels import FROM_SETTINGS, Channels, from_settings, in_order, resolved
from myna.channels.circuits import FAILURES_MAX, Circuits
from myna.channels.keys import IN_FILE, ChannelKeys
from myna.channels.routes import Route, RouteKind
from myna.errors import CommandError
from myna.http.client import HttpClient
from myna.settings import Settings
from myna.speech import catalogue
from myna.store.queries.config import ChannelRow, ChannelVoiceRow, Config, VoiceOverride, load
from tests.rig.actors import perform
from tests.rig.waiting import until
from tests.store.books import Books

URL = "https://up.example/v1"
KEY = "sk-an-entered-key"


def fail(circuits: Circuits, name: str) -> None:
    for account_id in range(1, FAILURES_MAX + 1):
        circuits.failed(name, "why", account_id)


def row(name: str, kind: str = "chat", url: str = "http://h/v1", **changes: object) -> ChannelRow:
    given = {"model": "m", "key_env": "", "priority": 100, "enabled": 1} | changes
    return ChannelRow(kind, name, url, **given)  # type: ignore[arg-type]


def configuration(**parts: Any) -> Config:
    """One with these parts and no others."""
    empty = dict.fromkeys(("channels", "voices", "node_voices", "node_clones", "blends"), ())
    return Config(**({"version": 1, "settings": {}, "overrides": {}} | empty | parts))


def config(*rows: ChannelRow, voices: tuple[ChannelVoiceRow, ...] = ()) -> Config:
    return configuration(channels=rows, voices=voices)


def channels(settings: Settings | None = None, environ: dict[str, str] | None = None) -> Channels:
    chosen = settings or Settings(speech="none")
    return Channels(
        settings=chosen, environ=environ or {}, http_client=HttpClient(connections_max=1), local={}
    )


def test_chat_channels_with_an_open_circuit_are_tried_last_and_disabled_ones_never() -> None:
    known = channels()
    site = config(row("a"), row("b", enabled=0), row("c"), row("d"), row("s", kind="speech"))
    fail(known.circuits, "a")
    assert [channel.name for channel in known.chat(site)] == ["c", "d", "a"]


def test_channels_of_a_route_are_of_its_kind_and_among_those_it_names() -> None:
    known = channels()
    site = config(row("a"), row("b", enabled=0), row("c"), row("s", kind="speech"))

    def of(kind: RouteKind, *names: str) -> list[str]:
        found = known.of_route(site, Route("r", kind, 1, channels=names))
        return [channel.name for channel in found]

    for kind in (RouteKind.CHAT, RouteKind.EMBEDDINGS, RouteKind.TRANSCRIPTION):
        assert of(kind) == ["a", "c"]
    assert of(RouteKind.SPEECH) == ["s"]
    assert of(RouteKind.CHAT, "c", "b", "gone") == ["c"]
    assert of(RouteKind.CHAT, "gone") == []
    fail(known.circuits, "a")
    assert of(RouteKind.CHAT, "c", "a") == ["c", "a"]


def test_white_space_around_a_key_is_no_part_of_it() -> None:
    """A file that ends with a line end is a common source of a variable."""
    settings = Settings(chat_url="http://h/v1", chat_key=" one\n", speech="http://h/v1", speech_key="two\r\n")
    assert [channel.key for channel in from_settings(settings)] == ["one", "two"]
    assert resolved(row("a", key_env="KEY"), {"KEY": "\tthree "}, lambda row: "").key == "three"


def test_weights_order_only_channels_of_one_priority() -> None:
    site = config(
        row("first", priority=1),
        row("plain"),
        row("heavy", weight=9),
        row("light", weight=1),
        row("last", priority=200, weight=1000),
    )
    known = channels(Settings(speech="none", chat_url="http://h/v1"))
    orders = {tuple(channel.name for channel in known.chat(site)) for _ in range(200)}
    ends = ("plain", "last")
    assert orders == {
        (FROM_SETTINGS, "first", "heavy", "light", *ends),
        (FROM_SETTINGS, "first", "light", "heavy", *ends),
    }


def test_a_channel_comes_first_as_often_as_its_weight_says() -> None:
    site = channels().all(config(row("a", weight=1), row("b", weight=3), row("c", weight=6)))
    draw = random.Random(23).random
    first = Counter(in_order(site, draw)[0].name for _ in range(10_000))
    assert first == {
        "a": pytest.approx(1000, abs=120),
        "b": pytest.approx(3000, abs=180),
        "c": pytest.approx(6000, abs=200),
    }


def test_the_voices_follow_circuits_and_the_configuration() -> None:
    known = channels()
    voices = [ChannelVoiceRow(name.upper(), name, "female", "en", name) for name in ("s", "t")]
    site = config(row("s", kind="speech"), row("t", kind="speech"), voices=tuple(voices))

    def usable(site: Config) -> list[str]:
        return [voice.name for voice in catalogue.usable(known, site)]

    assert usable(site) == ["s", "t"]
    fail(known.circuits, "s")
    assert [speech.up for speech in known.speech(site)] == [False, True]
    assert usable(site) == ["t"]
    known.circuits.succeeded("s")
    assert usable(site) == ["s", "t"]
    assert usable(structs.replace(site, overrides={"T": VoiceOverride("new", 1, 0)})) == ["new", "s"]


def test_the_channels_of_the_settings_go_first() -> None:
    settings = Settings(chat_url="http://h/v1", chat_key="k", speech="http://s/v1")
    found = channels(settings).all(config(row("a", priority=-5)))
    assert [channel.name for channel in found] == [FROM_SETTINGS, f"{FROM_SETTINGS}-speech", "a"]
    assert [channel.key for channel in found] == ["k", "", ""]


def test_settings_without_channels_provide_only_the_embedded_voice(tmp_path: Path) -> None:
    found = from_settings(Settings(data=str(tmp_path)))
    assert [(channel.kind, channel.url) for channel in found] == [("speech", "espeak:")]
    assert from_settings(Settings(speech="none")) == []


def test_a_stored_key_precedes_that_of_the_environment(tmp_path: Path) -> None:
    keys = ChannelKeys(Settings(data=str(tmp_path)))
    keys.store(row("b", stored_key=IN_FILE), "stored")

    def key(name: str, **changes: str) -> tuple[str, bool]:
        found = resolved(row(name, **changes), {"KEY": "k"}, keys.read)
        return found.key, found.key_stored

    assert key("a", key_env="KEY") == ("k", False)
    assert key("a", key_env="OTHER") == key("a") == ("", False)
    assert key("b", key_env="KEY", stored_key=IN_FILE) == ("stored", True)


async def test_a_stalled_disk_does_not_stop_the_loop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(channel_keys, "LOAD_MAX_S", 0.05)
    settings = Settings(speech="none", data=str(tmp_path))
    ChannelKeys(settings).store(row("a", stored_key=IN_FILE), "first")
    mine = channels(settings)
    given = config(row("a"))
    await mine.load_keys(given)
    assert mine.all(given)[-1].key == "first"

    file = tmp_path / "secrets" / "a.key"
    stored = file.read_bytes().replace(b"first", b"later")
    file.unlink()
    os.mkfifo(file)  # to open it waits for a writer, as a mount that does not answer
    newer, began = config(row("a"), row("b")), time.perf_counter()
    for _ in range(3):
        await mine.load_keys(newer)
    assert time.perf_counter() - began < 0.5
    assert [channel.key for channel in mine.all(newer)] == ["first", ""]
    with file.open("wb") as mount:
        mount.write(stored)

    async def is_read() -> bool:
        return mine.all(newer)[0].key == "later"

    await until(is_read, "the keys are read")


@pytest.mark.parametrize(
    "wrong",
    [
        row(""),
        row(" "),
        row("x" * 101),
        row("a\nb"),
        row(FROM_SETTINGS),
        row("espeak"),
        row("a", url="h/v1"),
        row("a", url="http://"),
        row("a", url="http://h/v1?key=x"),
        row("a", url="http://h:99999"),
        row("a", url="file:///etc/passwd"),
        row("a", kind="speech", url="parrot:"),
        row("a", key_env="sk-the-key-itself"),
        row("a", key_env="1A"),
        row("a", kind="speech", responses=1),
    ],
)
def test_an_invalid_channel_is_refused_without_its_secret(wrong: ChannelRow) -> None:
    with pytest.raises(CommandError) as raised:
        check_row(wrong)
    assert "the-key-itself" not in str(raised.value)
    for right in (
        row("a", weight=1_000_000, responses=1),
        row("a", url="parrot:"),
        row("名 1", key_env="A_1"),
    ):
        check_row(right)


# ---- keys that the operator entered: encrypted or in private files, for one server each


@pytest.fixture
def keys(tmp_path: Path) -> ChannelKeys:
    return ChannelKeys(Settings(data=str(tmp_path)))


def up(name: str = "up", url: str = URL) -> ChannelRow:
    return row(name, url=url, stored_key=IN_FILE)


@pytest.mark.parametrize("name", ["up", "a/b", "..", ".", "渠道", "../../x", " a b "])
def test_a_key_is_in_a_private_file_of_its_folder(keys: ChannelKeys, tmp_path: Path, name: str) -> None:
    keys.store(up(name), KEY)
    (file,) = (tmp_path / "secrets").iterdir()
    assert (file.stat().st_mode & 0o777, file.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    assert keys.read(up(name)) == KEY
    assert keys.remove(name)
    assert not list((tmp_path / "secrets").iterdir())
    assert (keys.read(up(name)), keys.remove(name)) == ("", False)


@pytest.mark.parametrize("secret", ["", "s" * 32])
def test_a_key_is_for_the_server_for_which_it_was_entered(secret: str, tmp_path: Path) -> None:
    keys = ChannelKeys(Settings(data=str(tmp_path), secret_key=secret))
    stored = row("up", url=URL, stored_key=keys.stored(up(), KEY))
    keys.store(stored, KEY)
    assert (tmp_path / "secrets").exists() == (not secret)
    assert KEY not in str(stored)
    assert keys.read(structs.replace(stored, url="HTTPS://UP.example/other/v2")) == KEY
    for other in ("https://evil.example/v1", "http://up.example/v1", "https://up.example:444/v1"):
        assert keys.read(structs.replace(stored, url=other)) == ""
    assert keys.read(structs.replace(stored, name="another")) == ""


@pytest.mark.parametrize(
    ("secrets", "is_read"),
    [("s" * 32, True), (f"{'t' * 32},{'s' * 32}", True), ("t" * 32, False), ("", False)],
)
def test_a_key_is_decrypted_with_each_secret_key_and_by_nothing_else(
    secrets: str, is_read: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    encrypting = ChannelKeys(Settings(data=str(tmp_path), secret_key="s" * 32))
    stored = row("up", url=URL, stored_key=encrypting.stored(up(), KEY))
    mine = channels(Settings(data=str(tmp_path), speech="none", secret_key=secrets))
    (found,) = mine.all(config(stored))
    assert (found.key, found.key_stored) == (KEY if is_read else "", True)
    for _ in range(2):
        mine.warn_of_missing_keys(config(stored))
    warned = [
        "channel 'up' has no key in this process: it was entered on another machine, or is encrypted with"
    ]
    assert [line.partition(" another MYNA_SECRET_KEY")[0] for line in caplog.messages] == warned * (
        not is_read
    )


@pytest.mark.parametrize("key", ["", "with space", "line\nbreak", "schlüssel", "x" * 4097])
def test_a_key_that_no_header_can_have_is_refused_and_not_repeated(keys: ChannelKeys, key: str) -> None:
    with pytest.raises(CommandError) as refused:
        keys.stored(up(), key)
    assert not key or key not in str(refused.value)


def test_a_key_in_a_file_is_refused_where_several_machines_may_serve(tmp_path: Path) -> None:
    several = Settings(data=str(tmp_path), storage="s3://bucket")
    with pytest.raises(CommandError, match="set MYNA_SECRET_KEY"):
        ChannelKeys(several).stored(up(), KEY)
    assert ChannelKeys(replace(several, secret_key="s" * 32)).stored(up(), KEY) != IN_FILE


def test_a_name_that_is_too_long_for_a_file_is_refused(keys: ChannelKeys) -> None:
    with pytest.raises(CommandError, match="too long for a file"):
        keys.stored(up("渠" * 100), KEY)


class _Interrupted(RekeyChannels, frozen=True):
    """Is rolled back at its end, as by an outage of the database."""

    async def run(self, change: Change) -> dict[str, str]:
        found = await super().run(change)

        def stop() -> None:
            raise CommandError("stopped")

        change.last.append(stop)
        return found


async def test_a_key_stays_in_its_file_until_it_is_in_the_database(books: Books, tmp_path: Path) -> None:
    plain, secret = (Settings(data=str(tmp_path), secret_key=one) for one in ("", "s" * 32))
    await perform(books.db, AddChannel(kind="chat", name="up", url=URL, model="m", key=KEY), settings=plain)
    with pytest.raises(CommandError, match="stopped"):
        await perform(books.db, _Interrupted(), settings=secret)
    (stored,) = (await load(books.db)).channels
    assert ChannelKeys(plain).read(stored) == KEY
    await perform(books.db, RekeyChannels(), settings=secret)
    (stored,) = (await load(books.db)).channels
    assert ChannelKeys(secret).read(stored) == KEY
    assert not list((tmp_path / "secrets").iterdir())


def test_a_damaged_file_is_no_key_and_is_logged(
    keys: ChannelKeys, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    keys.store(up(), KEY)
    next((tmp_path / "secrets").iterdir()).write_bytes(b'{"key": "sk-an-entered')
    with caplog.at_level(logging.ERROR):
        assert keys.read(up()) == ""
    assert "the stored key of channel 'up' can't be read: it is damaged" in caplog.text
    assert "sk-an" not in caplog.text


def test_a_folder_that_cannot_be_written_is_an_error_of_one_line(keys: ChannelKeys, tmp_path: Path) -> None:
    (tmp_path / "secrets").write_text("a file")
    with pytest.raises(CommandError, match="The key can't be stored in"):
        keys.store(up(), KEY)

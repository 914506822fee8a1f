"""Channels: their order, their rests, and which can be at all."""

import pytest

from myna.channels import (
    FAILURES_MAX,
    FROM_SETTINGS,
    Channels,
    Rests,
    check,
    from_settings,
    resolved,
)
from myna.errors import CommandError
from myna.outbound import Outbound
from myna.settings import Settings
from myna.store.site import ChannelRow, ChannelVoiceRow, Config

REST_S = 10.0


class Clock:
    """Seconds that pass when the test says so."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def rests(clock: Clock) -> Rests:
    return Rests(REST_S, clock)


def fail(rests: Rests, name: str, times: int = FAILURES_MAX) -> None:
    for _ in range(times):
        rests.failed(name)


def row(name: str, kind: str = "chat", url: str = "http://h/v1", **changes: object) -> ChannelRow:
    given = {"model": "m", "key_env": "", "priority": 100, "enabled": 1} | changes
    return ChannelRow(kind, name, url, **given)  # type: ignore[arg-type]


def config(*rows: ChannelRow, voices: tuple[ChannelVoiceRow, ...] = ()) -> Config:
    return Config(1, {}, rows, voices, (), (), {})


def channels(settings: Settings | None = None, environ: dict[str, str] | None = None) -> Channels:
    chosen = settings or Settings(speech="none")
    return Channels(chosen, environ or {}, Outbound(connections_max=1), None)


def test_a_channel_rests_after_so_many_failures_in_a_row(rests: Rests) -> None:
    fail(rests, "a", FAILURES_MAX - 1)
    assert not rests.resting("a")
    rests.failed("a")
    assert rests.resting("a")
    assert not rests.resting("b")


def test_a_success_in_between_starts_the_count_anew(rests: Rests) -> None:
    fail(rests, "a", FAILURES_MAX - 1)
    rests.succeeded("a")
    fail(rests, "a", FAILURES_MAX - 1)
    assert not rests.resting("a")


def test_a_rest_ends_by_itself_and_then_one_try_decides(rests: Rests, clock: Clock) -> None:
    fail(rests, "a")
    clock.now += REST_S - 0.01
    assert rests.resting("a")
    clock.now += 0.02
    assert not rests.resting("a")
    rests.failed("a")
    assert rests.resting("a")
    clock.now += REST_S
    rests.succeeded("a")
    fail(rests, "a", FAILURES_MAX - 1)
    assert not rests.resting("a")


def test_a_success_ends_a_rest(rests: Rests) -> None:
    fail(rests, "a")
    rests.succeeded("a")
    assert not rests.resting("a")


def test_resting_chat_channels_are_tried_last_and_disabled_ones_never() -> None:
    known = channels()
    site = config(row("a"), row("b", enabled=0), row("c"), row("d"), row("s", kind="speech"))
    fail(known.rests, "a")
    assert [channel.name for channel in known.chat(site)] == ["c", "d", "a"]


def test_a_resting_speech_channel_is_down() -> None:
    known = channels()
    voice = ChannelVoiceRow("s", "v", "V", "female", "en")
    site = config(row("s", kind="speech"), voices=(voice,))
    assert [(speech.up, len(speech.voices)) for speech in known.speech(site)] == [(True, 1)]
    fail(known.rests, "s")
    assert [speech.up for speech in known.speech(site)] == [False]


def test_the_channels_of_the_settings_go_first() -> None:
    settings = Settings(chat_url="http://h/v1", chat_key="k", speech="http://s/v1")
    found = channels(settings).all(config(row("a", priority=-5)))
    assert [channel.name for channel in found] == [FROM_SETTINGS, f"{FROM_SETTINGS}-speech", "a"]
    assert [channel.key for channel in found] == ["k", "", ""]


def test_settings_without_channels_bring_only_the_embedded_voice() -> None:
    assert [(channel.kind, channel.url) for channel in from_settings(Settings())] == [("speech", "espeak:")]
    assert from_settings(Settings(speech="none")) == []


def test_a_stored_channels_key_comes_from_the_environment() -> None:
    environ = {"KEY": "k"}
    assert resolved(row("a", key_env="KEY"), environ).key == "k"
    assert resolved(row("a", key_env="OTHER"), environ).key == ""
    assert resolved(row("a"), environ).key == ""


@pytest.mark.parametrize("right", [row("a"), row("a", url="parrot:"), row("名 1", key_env="A_KEY_1")])
def test_a_channel_that_can_be_is_taken(right: ChannelRow) -> None:
    check(right)


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
    ],
)
def test_a_channel_that_cannot_be_is_refused_without_a_secret(wrong: ChannelRow) -> None:
    with pytest.raises(CommandError) as raised:
        check(wrong)
    assert "the-key-itself" not in str(raised.value)

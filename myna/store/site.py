"""Queries on what the operator configures: settings, channels, voices of channels; one version for all of it.

Whatever writes here raises the version in the same transaction. A process keeps a copy and proves it fresh
by the version that every key check and every charge brings along.
"""

from msgspec import Struct

from myna.store.database import Connection, Reader


class ChannelRow(Struct, frozen=True):
    """An upstream channel; the key itself stays in the environment variable `key_env`."""

    kind: str
    name: str
    url: str
    model: str
    key_env: str
    priority: int
    enabled: int


class ChannelVoiceRow(Struct, frozen=True):
    """A voice that a speech channel said it can speak."""

    channel: str
    voice_id: str
    name: str
    gender: str
    language: str


class NodeVoiceRow(Struct, frozen=True):
    """A voice that a compute node said it can speak."""

    node_id: int
    voice_id: str
    name: str
    gender: str
    language: str


class NodeCloneRow(Struct, frozen=True):
    """A language in which a compute node speaks with cloned voices."""

    node_id: int
    language: str


class VoiceMark(Struct, frozen=True):
    """What the operator made of a public voice: its name, "" for its own; its place, 0 for none; hidden."""

    name: str
    place: int
    hidden: int


class Config(Struct, frozen=True):
    """Everything the operator configured and the compute nodes offer, as of `version`. Of nodes that are
    disabled or draining nothing is here."""

    version: int
    settings: dict[str, str]
    channels: tuple[ChannelRow, ...]
    voices: tuple[ChannelVoiceRow, ...]
    node_voices: tuple[NodeVoiceRow, ...]
    node_clones: tuple[NodeCloneRow, ...]
    marks: dict[str, VoiceMark]


async def load(db: Reader) -> Config:
    """The version is read first: what changes meanwhile shows as a newer version at the next check."""
    ((version,),) = await db.fetch("SELECT version FROM site")
    settings = await db.fetch("SELECT name, value FROM settings")
    channels = await db.fetch(
        "SELECT kind, name, url, model, key_env, priority, enabled FROM channels ORDER BY priority, id"
    )
    voices = await db.fetch(
        "SELECT channel, voice_id, name, gender, language FROM channel_voices ORDER BY channel, position"
    )
    working = "JOIN nodes n ON n.id = node_id WHERE n.disabled_at = 0 AND n.draining = 0"
    node_voices = await db.fetch(
        "SELECT v.node_id, v.voice_id, v.name, v.gender, v.language"
        f" FROM node_voices v {working} ORDER BY v.node_id, v.position"
    )
    node_clones = await db.fetch(
        f"SELECT c.node_id, c.language FROM node_clones c {working} ORDER BY c.node_id, c.language"
    )
    marks = await db.fetch("SELECT voice_id, name, place, hidden FROM voice_marks")
    return Config(
        int(version),
        {str(name): str(value) for name, value in settings},
        tuple(ChannelRow(*row) for row in channels),
        tuple(ChannelVoiceRow(*row) for row in voices),
        tuple(NodeVoiceRow(*row) for row in node_voices),
        tuple(NodeCloneRow(*row) for row in node_clones),
        {str(voice_id): VoiceMark(*mark) for voice_id, *mark in marks},
    )


async def changed(db: Connection) -> None:
    """Makes every process read the configuration again before its next decision."""
    await db.fetch("UPDATE site SET version = version + 1")


async def set_setting(db: Connection, name: str, value: str) -> None:
    """Sets one site setting."""
    await db.fetch(
        "INSERT INTO settings (name, value) VALUES ($1, $2)"
        " ON CONFLICT (name) DO UPDATE SET value = excluded.value",
        name, value,
    )  # fmt: skip
    await changed(db)


async def add_channel(db: Connection, channel: ChannelRow) -> bool:
    """A new channel; False if the name is taken."""
    rows = await db.fetch(
        "INSERT INTO channels (kind, name, url, model, key_env, priority, enabled, created_at)"
        " VALUES ($1, $2, $3, $4, $5, $6, $7, now_ms()) ON CONFLICT (name) DO NOTHING RETURNING id",
        channel.kind, channel.name, channel.url, channel.model, channel.key_env, channel.priority,
        channel.enabled,
    )  # fmt: skip
    await changed(db)
    return bool(rows)


async def enable_channel(db: Connection, name: str, enabled: bool) -> bool:
    """Switches a channel on or off; False if there is none of this name."""
    rows = await db.fetch("UPDATE channels SET enabled = $2 WHERE name = $1 RETURNING id", name, int(enabled))
    await changed(db)
    return bool(rows)


async def remove_channel(db: Connection, name: str) -> bool:
    """Deletes a channel and its voices; False if there is none of this name."""
    await db.fetch("DELETE FROM channel_voices WHERE channel = $1", name)
    rows = await db.fetch("DELETE FROM channels WHERE name = $1 RETURNING id", name)
    await changed(db)
    return bool(rows)


async def record_voices(db: Connection, channel: str, voices: list[ChannelVoiceRow]) -> None:
    """Replaces what a channel can speak; nothing changes, the version neither, where it's the same.

    The version's row is the lock: two processes that ask the same channel take turns.
    """
    await db.fetch("UPDATE site SET version = version")
    rows = await db.fetch(
        "SELECT channel, voice_id, name, gender, language FROM channel_voices WHERE channel = $1"
        " ORDER BY position",
        channel,
    )
    if [ChannelVoiceRow(*row) for row in rows] == voices:
        return
    await db.fetch("DELETE FROM channel_voices WHERE channel = $1", channel)
    for position, voice in enumerate(voices):
        await db.fetch(
            "INSERT INTO channel_voices (channel, position, voice_id, name, gender, language)"
            " VALUES ($1, $2, $3, $4, $5, $6)",
            channel, position, voice.voice_id, voice.name, voice.gender, voice.language,
        )  # fmt: skip
    await changed(db)

"""Queries on the configuration: settings, channels, voices of channels and routes, with one version for all.

Each write raises the version in the same transaction. A process caches the configuration; each key check and
each charge returns the version, which shows whether the cache is current. What compute nodes offer has a
separate version, compared by speech only: a node must not make chat reload the configuration.
"""

from collections import defaultdict
from collections.abc import Sequence
from enum import StrEnum
from typing import Literal

from msgspec import Struct, structs

from myna.engines.interface import EngineVoice
from myna.store.database import Queries, Transaction
from myna.store.rows import (
    NOW,
    columns,
    fetch_map,
    fetch_only,
    fetch_rows,
    has_row,
    insert_row,
    put_row,
)

CircuitState = Literal["closed", "open", "half-open"]
_STATE = "CASE WHEN open_until = 0 THEN 'closed' WHEN open_until > now_ms() THEN 'open' ELSE 'half-open' END"


class ChannelRow(Struct, frozen=True):
    """An upstream channel, with 0 and 1 in place of a bool if it was read; the key itself stays in the
    environment variable `key_env`. `weight` is its share among the channels of its priority, 0 for none.
    `responses`: its server offers POST /responses. `concurrent` is how many requests of a process it may have
    open, 0 for a share of all. `stored_key` is the key that was entered for it, encrypted, or where it is:
    see `channels/keys.py`."""

    kind: str
    name: str
    url: str
    model: str
    key_env: str = ""
    priority: int = 0
    enabled: bool = True
    weight: int = 0
    responses: bool = False
    concurrent: int = 0
    stored_key: str = ""


class ChannelVoiceRow(EngineVoice, frozen=True):
    """A voice that a speech channel offers."""

    channel: str


class NodeVoiceRow(EngineVoice, frozen=True):
    """A voice that a compute node offers."""

    node_id: int


class NodeCloneRow(Struct, frozen=True):
    """A language in which a compute node speaks with cloned voices."""

    node_id: int
    language: str


class VoiceOverride(Struct, frozen=True):
    """The operator's override of a public voice. `name` is "" for the original name, `place` 0 for none."""

    name: str
    place: int
    hidden: int


class BlendRow(EngineVoice, frozen=True):
    """A public voice that the operator mixed. `recipe` names its parts: see `engines/voices.py`."""

    recipe: str


class RouteKind(StrEnum):
    """What a route does. Speech channels serve SPEECH, chat channels all others."""

    CHAT = "chat"
    EMBEDDINGS = "embeddings"
    SPEECH = "speech"
    TRANSCRIPTION = "transcription"

    @property
    def channel_kind(self) -> str:
        return "speech" if self is RouteKind.SPEECH else "chat"


class Route(Struct, frozen=True):
    """What a model's name means: see `channels/routes.py`. `units` is the price of a call. `upstream_model`
    is the model that the channel is asked for; "" for the channel's own, or else the caller's. Without
    `channels`, every enabled channel of the kind serves it. With `intent`, instructions to speak are spoken,
    as on /v1."""

    name: str
    kind: RouteKind
    units: int
    upstream_model: str = ""
    channels: tuple[str, ...] = ()
    intent: bool = False


class NodesOffer(Struct, frozen=True, kw_only=True):
    """What the enabled compute nodes offer as of `nodes_version`, which is 0 if no node ever offered
    anything."""

    nodes_version: int = 0
    node_voices: tuple[NodeVoiceRow, ...]
    node_clones: tuple[NodeCloneRow, ...]


class Config(NodesOffer, frozen=True, kw_only=True):
    """The operator's configuration as of `version`, and what the nodes offer. `lexicons` are the versions of
    the words of the site, 0, and of accounts. No new call may have an id below `closed_before`: see
    `audit_state`."""

    version: int
    settings: dict[str, str]
    channels: tuple[ChannelRow, ...]
    voices: tuple[ChannelVoiceRow, ...]
    overrides: dict[str, VoiceOverride]
    blends: tuple[BlendRow, ...]
    routes: tuple[Route, ...] = ()
    lexicons: dict[int, int] = {}
    closed_before: bytes = b""


async def load(db: Queries) -> Config:
    """The configuration. The version is read first, so a change in between shows at the next comparison."""
    ((version, closed_before),) = await db.fetch("SELECT version, closed_before FROM site")
    settings = await fetch_map(db, str, str, "SELECT name, value FROM settings")
    sql = f"SELECT {columns(ChannelRow)} FROM channels ORDER BY priority, id"
    channels = await fetch_rows(db, ChannelRow, sql)
    sql = f"SELECT {columns(ChannelVoiceRow)} FROM channel_voices ORDER BY channel, position"
    voices = await fetch_rows(db, ChannelVoiceRow, sql)
    nodes = await load_nodes(db)
    overrides = await db.fetch(f"SELECT voice_id, {columns(VoiceOverride)} FROM voice_marks")
    blends = await fetch_rows(db, BlendRow, f"SELECT {columns(BlendRow)} FROM voice_blends")
    return Config(
        version=int(version),
        settings=settings,
        channels=tuple(channels),
        voices=tuple(voices),
        overrides={str(voice_id): VoiceOverride(*row) for voice_id, *row in overrides},
        blends=tuple(sorted(blends, key=lambda blend: blend.voice_id)),
        routes=tuple(await load_routes(db)),
        lexicons=await fetch_map(db, int, int, "SELECT account_id, version FROM lexicons"),
        closed_before=bytes(closed_before),
        **structs.asdict(nodes),
    )


async def version(db: Queries) -> int:
    """The version of the configuration."""
    return await fetch_only(db, int, "SELECT version FROM site")


async def nodes_version(db: Queries) -> int:
    """The version of what the compute nodes offer."""
    return await fetch_only(db, int, "SELECT nodes_version FROM site")


async def load_nodes(db: Queries) -> NodesOffer:
    """What the enabled compute nodes offer. The version is read first, as in `load`."""
    version = await nodes_version(db)
    working = "JOIN nodes n ON n.id = node_id WHERE n.disabled_at = 0 AND n.draining = 0"
    sql = f"SELECT {columns(NodeVoiceRow, 'v')} FROM node_voices v {working} ORDER BY v.node_id, v.position"
    voices = await fetch_rows(db, NodeVoiceRow, sql)
    sql = f"SELECT {columns(NodeCloneRow, 'c')} FROM node_clones c {working} ORDER BY c.node_id, c.language"
    clones = await fetch_rows(db, NodeCloneRow, sql)
    return NodesOffer(nodes_version=version, node_voices=tuple(voices), node_clones=tuple(clones))


async def lock(db: Transaction) -> None:
    """Locks the configuration until the transaction ends."""
    await db.fetch("UPDATE site SET version = version")


async def raise_version(db: Transaction) -> None:
    """Makes every process reload the configuration before its next decision."""
    await db.fetch("UPDATE site SET version = version + 1")


async def raise_nodes_version(db: Transaction) -> None:
    """Makes every process reload what the nodes offer before its next decision on speech. The first change
    reloads the whole configuration, since no process compares this version until then."""
    sql = """UPDATE site SET nodes_version = nodes_version + 1,
        version = version + CASE WHEN nodes_version = 0 THEN 1 ELSE 0 END"""
    await db.fetch(sql)


async def set_setting(db: Transaction, name: str, value: str) -> None:
    """Sets one site setting."""
    await raise_version(db)
    await put_row(db, "settings", "name", name=name, value=value)


async def add_channel(db: Transaction, channel: ChannelRow) -> bool:
    """A new channel; False if the name is taken."""
    unless_taken = "ON CONFLICT (name) DO NOTHING RETURNING id"
    rows = await insert_row(db, "channels", unless_taken, **structs.asdict(channel), created_at=NOW)
    await raise_version(db)
    return bool(rows)


async def put_channel(db: Transaction, row: ChannelRow) -> None:
    """Changes the channel of this name. One with another URL loses its voices."""
    sql = """DELETE FROM channel_voices WHERE channel = $1
        AND channel IN (SELECT name FROM channels WHERE name = $1 AND url <> $2)"""
    await db.fetch(sql, row.name, row.url)
    values = {name: value for name, value in structs.asdict(row).items() if name not in ("kind", "name")}
    changes = ", ".join(f"{name} = ${number}" for number, name in enumerate(values, 2))
    await db.fetch(f"UPDATE channels SET {changes} WHERE name = $1", row.name, *values.values())
    await raise_version(db)


async def order_channels(db: Transaction, names: Sequence[str], step: int) -> None:
    """Gives these channels the priorities `step`, twice `step` and so on."""
    for place, name in enumerate(names, start=1):
        await db.fetch("UPDATE channels SET priority = $2 WHERE name = $1", name, place * step)
    await raise_version(db)


async def remove_channel(db: Transaction, name: str) -> bool:
    """Deletes a channel, its voices and its circuit; False if there is none of this name."""
    await db.fetch("DELETE FROM channel_voices WHERE channel = $1", name)
    await db.fetch("DELETE FROM circuits WHERE channel = $1", name)
    await raise_version(db)
    return await has_row(db, "DELETE FROM channels WHERE name = $1 RETURNING id", name)


async def record_voices(db: Transaction, channel: str, voices: list[ChannelVoiceRow]) -> None:
    """Replaces the voices of a channel. Equal voices change nothing, not even the version. Two processes may
    have the same channel."""
    await lock(db)
    sql = f"SELECT {columns(ChannelVoiceRow)} FROM channel_voices WHERE channel = $1 ORDER BY position"
    if await fetch_rows(db, ChannelVoiceRow, sql, channel) == voices:
        return
    await db.fetch("DELETE FROM channel_voices WHERE channel = $1", channel)
    for position, voice in enumerate(voices):
        await insert_row(db, "channel_voices", position=position, **structs.asdict(voice))
    await raise_version(db)


class CircuitRow(Struct, frozen=True):
    """`half-open`: the cooldown is over, and no call has succeeded since. `error` opened the circuit last, at
    `error_at` (milliseconds); "" and 0 where it never opened. Calls are admitted from `open_until`
    (milliseconds), 0 for a closed circuit."""

    state: CircuitState = "closed"
    error: str = ""
    error_at: int = 0
    open_until: int = 0


async def load_circuits(db: Queries) -> dict[str, CircuitRow]:
    """The circuits that ever opened, by channel name."""
    rows = await db.fetch(f"SELECT channel, {columns(CircuitRow, state=_STATE)} FROM circuits")
    return {str(channel): CircuitRow(*row) for channel, *row in rows}


async def record_open(db: Transaction, channel: str, open_ms: int, error: str) -> None:
    """Records that the channel's circuit opened for `open_ms` after `error`."""
    sql = """INSERT INTO circuits (channel, open_until, error, error_at)
        VALUES ($1, now_ms() + $2, $3, now_ms()) ON CONFLICT (channel) DO UPDATE SET
        open_until = excluded.open_until, error = excluded.error, error_at = excluded.error_at"""
    await db.fetch(sql, channel, open_ms, error)


async def record_closed(db: Transaction, channel: str) -> None:
    """Records that the channel's circuit closed. Its last error is kept."""
    await db.fetch("UPDATE circuits SET open_until = 0 WHERE channel = $1", channel)


async def load_routes(db: Queries) -> list[Route]:
    """All routes of the operator by name."""
    channels: defaultdict[str, list[str]] = defaultdict(list)
    for route, channel in await db.fetch("SELECT route, channel FROM route_channels"):
        channels[str(route)].append(str(channel))
    rows = await db.fetch("SELECT name, kind, units, upstream_model, intent FROM routes")
    found = [
        Route(name, RouteKind(kind), units, model, tuple(sorted(channels[name])), bool(intent))
        for name, kind, units, model, intent in rows
    ]
    return sorted(found, key=lambda route: route.name)


async def put_route(db: Transaction, route: Route) -> None:
    """Adds the route, or replaces the one of its name."""
    sql = """INSERT INTO routes (name, kind, units, upstream_model, intent, created_at)
        VALUES ($1, $2, $3, $4, $5, now_ms()) ON CONFLICT (name) DO UPDATE SET kind = excluded.kind,
        units = excluded.units, upstream_model = excluded.upstream_model, intent = excluded.intent"""
    values = (route.name, route.kind.value, route.units, route.upstream_model, int(route.intent))
    await db.fetch(sql, *values)
    await db.fetch("DELETE FROM route_channels WHERE route = $1", route.name)
    for channel in route.channels:
        await insert_row(db, "route_channels", route=route.name, channel=channel)


async def remove_route(db: Transaction, name: str) -> None:
    """Deletes a route. Keys that are limited to it can't use its name afterwards."""
    await db.fetch("DELETE FROM key_routes WHERE route = $1", name)
    await db.fetch("DELETE FROM route_channels WHERE route = $1", name)
    await db.fetch("DELETE FROM routes WHERE name = $1", name)


async def keys_limited_to_routes(db: Queries) -> dict[str, int]:
    """How many keys that are not revoked are limited to each route, by the route's name."""
    sql = """SELECT r.route, count(*) FROM key_routes r JOIN keys k ON k.id = r.key_id
        WHERE k.revoked_at = 0 GROUP BY r.route"""
    return await fetch_map(db, str, int, sql)


async def routes_of_key(db: Queries, key_id: int) -> tuple[str, ...] | None:
    """The names of the routes to which a key is limited, None for any."""
    sql = """SELECT k.routed, r.route FROM keys k LEFT JOIN key_routes r ON r.key_id = k.id
        WHERE k.id = $1 ORDER BY r.route"""
    rows = await db.fetch(sql, key_id)
    if not rows or not rows[0][0]:
        return None
    return tuple(str(name) for _, name in rows if name is not None)


async def set_routes_of_key(db: Transaction, key_id: int, names: Sequence[str] | None) -> None:
    """Limits a key whose account is locked to these routes, or with None to any."""
    await db.fetch("UPDATE keys SET routed = $2 WHERE id = $1", key_id, int(names is not None))
    await db.fetch("DELETE FROM key_routes WHERE key_id = $1", key_id)
    for name in sorted(set(names or ())):
        await insert_row(db, "key_routes", key_id=key_id, route=name)

"""Queries on the operator's routes, which are part of the configuration: each change raises its version."""

from collections import defaultdict
from collections.abc import Sequence

from msgspec import Struct

from myna.store.database import Queries, Transaction


class RouteRow(Struct, frozen=True):
    """A route of the operator: see `routes.Route`. Without `channels`, every channel of its kind."""

    name: str
    kind: str
    units: int
    upstream_model: str
    intent: int
    channels: tuple[str, ...] = ()


async def load(db: Queries) -> list[RouteRow]:
    """All routes of the operator by name."""
    channels: defaultdict[str, list[str]] = defaultdict(list)
    for route, channel in await db.fetch("SELECT route, channel FROM route_channels"):
        channels[str(route)].append(str(channel))
    rows = await db.fetch("SELECT name, kind, units, upstream_model, intent FROM routes")
    found = [
        RouteRow(
            name=name,
            kind=kind,
            units=units,
            upstream_model=model,
            intent=intent,
            channels=tuple(sorted(channels[name])),
        )
        for name, kind, units, model, intent in rows
    ]
    return sorted(found, key=lambda route: route.name)


async def put(db: Transaction, route: RouteRow) -> None:
    """Adds the route, or replaces the one of its name."""
    await db.fetch(
        "INSERT INTO routes (name, kind, units, upstream_model, intent, created_at)"
        " VALUES ($1, $2, $3, $4, $5, now_ms()) ON CONFLICT (name) DO UPDATE SET kind = excluded.kind,"
        " units = excluded.units, upstream_model = excluded.upstream_model, intent = excluded.intent",
        route.name, route.kind, route.units, route.upstream_model, route.intent,
    )  # fmt: skip
    await db.fetch("DELETE FROM route_channels WHERE route = $1", route.name)
    for channel in route.channels:
        await db.fetch("INSERT INTO route_channels (route, channel) VALUES ($1, $2)", route.name, channel)


async def remove(db: Transaction, name: str) -> None:
    """Deletes a route. Keys that are limited to it can't use its name afterwards."""
    await db.fetch("DELETE FROM key_routes WHERE route = $1", name)
    await db.fetch("DELETE FROM route_channels WHERE route = $1", name)
    await db.fetch("DELETE FROM routes WHERE name = $1", name)


async def of_channel(db: Queries, channel: str) -> list[str]:
    """The names of the routes that name this channel."""
    rows = await db.fetch("SELECT route FROM route_channels WHERE channel = $1 ORDER BY route", channel)
    return [str(name) for (name,) in rows]


async def keys_limited(db: Queries) -> dict[str, int]:
    """How many keys that are not revoked are limited to each route, by the route's name."""
    rows = await db.fetch(
        "SELECT r.route, count(*) FROM key_routes r JOIN keys k ON k.id = r.key_id"
        " WHERE k.revoked_at = 0 GROUP BY r.route"
    )
    return {str(name): int(count) for name, count in rows}


async def of_key(db: Queries, key_id: int) -> tuple[str, ...] | None:
    """The names of the routes to which a key is limited, None for any."""
    rows = await db.fetch(
        "SELECT k.routed, r.route FROM keys k LEFT JOIN key_routes r ON r.key_id = k.id"
        " WHERE k.id = $1 ORDER BY r.route",
        key_id,
    )
    if not rows or not rows[0][0]:
        return None
    return tuple(str(name) for _, name in rows if name is not None)


async def set_of_key(db: Transaction, key_id: int, names: Sequence[str] | None) -> None:
    """Limits a key whose account is locked to these routes, or with None to any."""
    await db.fetch("UPDATE keys SET routed = $2 WHERE id = $1", key_id, int(names is not None))
    await db.fetch("DELETE FROM key_routes WHERE key_id = $1", key_id)
    for name in sorted(set(names or ())):
        await db.fetch("INSERT INTO key_routes (key_id, route) VALUES ($1, $2)", key_id, name)

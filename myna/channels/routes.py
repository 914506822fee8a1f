"""Routes: what callers name as `model`, what a call of it costs, and which channels serve it.

A few are built in and always there; the operator adds others. A name that ends in `*` is a wildcard: it
serves every model that begins with what precedes the star. An exact name comes before wildcards, and of these
the one with the longest prefix counts. A wildcard never serves the name of a built-in route.
"""

import re
from collections.abc import Iterable

from myna.config import SiteSettings
from myna.errors import CommandError, ModelNotFound
from myna.lib.names import check_model
from myna.store.database import Queries
from myna.store.queries import config as store
from myna.store.queries.config import Config
from myna.store.queries.config import Route as Route
from myna.store.queries.config import RouteKind as RouteKind

SPEECH_ROUTE = "tts-1"
"""The route of POST /v1/tts."""
TRANSCRIPTION_ROUTE = "whisper-1"
"""The route of the embedded Whisper."""
UNITS_MAX = 1_000_000
NAME_MAX_CHARS = 100
_NAME = re.compile(r"[^\s*\x00-\x1f\x7f-\xa0]{1,99}\*?|\*|[^\s*\x00-\x1f\x7f-\xa0]{100}")
"""Printable ASCII without spaces, and a star at the end only."""


_ALIASES = {"tts-1-hd": SPEECH_ROUTE, "gpt-4o-mini-tts": SPEECH_ROUTE}
"""Other names of built-in routes."""
BUILT_IN = {
    "svc-chat": RouteKind.CHAT,
    "svc-agent": RouteKind.CHAT,
    SPEECH_ROUTE: RouteKind.SPEECH,
    TRANSCRIPTION_ROUTE: RouteKind.TRANSCRIPTION,
}
"""The routes that are always there, with their kinds."""
PRICE_SETTINGS = {
    RouteKind.CHAT: "chat_units",
    RouteKind.SPEECH: "tts_units",
    RouteKind.TRANSCRIPTION: "transcription_units",
}
"""The site settings with the prices of the built-in routes."""
_RESERVED = frozenset({*BUILT_IN, *_ALIASES})


def find(config: Config, settings: SiteSettings, model: str, kind: RouteKind) -> Route:
    """The route of a model. Raises ModelNotFound if there is none, or if it is of another kind."""
    if model.endswith("*"):  # the name of a wildcard is no model
        raise ModelNotFound(model)
    built_in = _built_in(settings, _ALIASES.get(model, model))
    exact = built_in or next((row for row in config.routes if row.name == model), None)
    if exact:
        if exact.kind is not kind:
            why = f"model: {model} is a model for {exact.kind}; this endpoint needs one for {kind}."
            raise ModelNotFound(model, why, "" if built_in else exact.name)
        return exact
    rows = [
        row
        for row in config.routes
        if row.kind == kind and row.name.endswith("*") and model.startswith(row.name[:-1])
    ]
    if not rows:
        raise ModelNotFound(model)
    return max(rows, key=lambda row: len(row.name))


def named(config: Config, settings: SiteSettings, model: str) -> Route | None:
    """The route that serves a model, of any kind; of wildcards that of a chat, if there are several."""
    for kind in RouteKind:
        try:
            return find(config, settings, model, kind)
        except ModelNotFound:
            continue
    return None


def listed(config: Config, settings: SiteSettings) -> list[Route]:
    """The built-in routes, and those of the operator by name, wildcards last."""
    rows = sorted(config.routes, key=lambda row: row.name.endswith("*"))
    built_in = (_built_in(settings, name) for name in BUILT_IN)
    return [*filter(None, built_in), *rows]


def model_is_callers(route: Route) -> bool:
    """Whether the caller chooses the model that a channel is asked for: on a wildcard without its own."""
    return route.name.endswith("*") and not route.upstream_model


def model_for(route: Route, channel_model: str, wanted: str) -> str:
    """The model to ask a channel for, whose own model is `channel_model`, when the caller named `wanted`. A
    wildcard without an upstream model passes the caller's name on."""
    if route.upstream_model or route.name.endswith("*"):
        return route.upstream_model or wanted
    return channel_model or wanted


def check(route: Route) -> None:
    """Raises CommandError if the operator can't have this route."""
    if not _NAME.fullmatch(route.name):
        raise CommandError(
            "A route needs a name of 1 to {name_max_chars} characters without white space; it may end in *.",
            "name",
            name_max_chars=NAME_MAX_CHARS,
        )
    if route.name in _RESERVED:
        raise CommandError(
            "{name} is built in, and its price is the site setting {setting}; choose another name.",
            name=route.name,
            setting=price_setting(route.name),
        )
    check_model(route.upstream_model, "upstream_model")
    if route.intent and route.kind is not RouteKind.CHAT:
        raise CommandError("Only chat has instructions to speak.", "intent")


def price_setting(name: str) -> str:
    """The site setting with the price of a built-in route; empty for another name."""
    kind = BUILT_IN.get(_ALIASES.get(name, name))
    return PRICE_SETTINGS[kind] if kind else ""


async def check_known(db: Queries, names: Iterable[str]) -> None:
    """Raises CommandError for a name that is no route, such as one to which a key shall be limited."""
    known = [*BUILT_IN, *(row.name for row in await store.load_routes(db))]
    for name in names:
        if name not in known:
            raise CommandError(
                "There is no route {name!r}; there are {known}.", name=name, known=", ".join(known)
            )


def _built_in(settings: SiteSettings, name: str) -> Route | None:
    """The built-in route of this name; None if there is none."""
    kind = BUILT_IN.get(name)
    return Route(name, kind, getattr(settings, PRICE_SETTINGS[kind])) if kind else None

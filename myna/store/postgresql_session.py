"""The settings of a session on PostgreSQL."""

from collections.abc import Mapping
from typing import Any

CONNECT_TIMEOUT_S = 5.0


async def configure(settings: Mapping[str, str], raw: Any) -> None:
    """Sets them for the rest of the session. Connection poolers refuse most settings in a connection
    request."""
    pairs = ", ".join(f"set_config('{name}', '{value}', false)" for name, value in settings.items())
    await raw.execute(f"SELECT {pairs}", timeout=CONNECT_TIMEOUT_S)

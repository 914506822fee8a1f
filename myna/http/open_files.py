"""The limit on open files of a process, within which its connections must stay: a client whose call was
accepted must get a connection to a channel.
"""

import dataclasses
import logging
import resource
from typing import Final

from myna.settings import Settings

log = logging.getLogger(__name__)

OTHER_FILES: Final = 256
"""Open files and pipes other than connections: of a small limit half of it."""


def raise_limit(settings: Settings) -> None:
    """Raises the soft limit to what the configured connections need, as far as the hard limit allows. Logs a
    warning if that is less; `fitted` says what is left."""
    wanted = 2 * settings.connections_max + settings.outbound_connections_max + OTHER_FILES
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard == resource.RLIM_INFINITY:
        hard = max(wanted, soft)
    if soft < wanted and soft < hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(wanted, hard), hard))
    if hard < wanted:
        fits = fitted(settings)
        log.warning(
            "the limit on open files is %d; the configured connections need %d: %d client connections are"
            " accepted, and %d to upstreams are opened; raise the limit (ulimit -n, LimitNOFILE)",
            *(hard, wanted, fits.connections_max, fits.outbound_connections_max),
        )


def fitted(settings: Settings) -> Settings:
    """The settings with as many connections as the limit on open files allows. A third each is for client
    connections, for those that are refused, and for upstreams."""
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    outbound, clients = settings.outbound_connections_max, settings.connections_max
    free = files - min(OTHER_FILES, files // 2)
    if files == resource.RLIM_INFINITY or 2 * clients + outbound <= free:
        return settings
    outbound = min(outbound, max(1, free // 3))
    clients = min(clients, max(1, (free - outbound) // 2))
    return dataclasses.replace(settings, connections_max=clients, outbound_connections_max=outbound)

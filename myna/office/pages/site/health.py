"""Health: the last audit, and the state of the database, the channels and the storage."""

import platform

from msgspec import Struct
from starlette.responses import Response

from myna import __version__
from myna.office.messages import N_
from myna.office.page import Page, Who
from myna.office.visit import Visit
from myna.store.queries import audit, audit_state
from myna.store.schema import newest, schema_version


class Check(Struct, frozen=True):
    """A line: the name of the check, whether it passed, and the state in words."""

    what: str
    ok: bool
    state: str


async def show(visit: Visit) -> Response:
    """The last audit, the parts of the service, versions."""
    parts = visit.parts
    last = await visit.read(audit_state.state)
    schema = await visit.read(schema_version)
    missing = await parts.missing()
    checks = [
        Check(
            N_("Ledger entries"),
            not last.breaches,
            visit.text(N_("no breach found"))
            if not last.breaches
            else visit.text(N_("breaches: see the log")),
        ),
        Check(N_("Database"), schema >= newest(visit.db.dialect), parts.settings.database_label),
        Check(N_("Chat"), not missing["chat"], visit.text(missing["chat"] or N_("available"))),
        Check(N_("Speech"), not missing["speech"], visit.text(missing["speech"] or N_("available"))),
        Check(
            N_("Storage"),
            not parts.space.low,
            visit.text(N_("low: new audio is refused") if parts.space.low else N_("enough free space")),
        ),
    ]
    return visit.page(
        "site/health.html",
        checks=checks,
        last=last,
        rules=audit.RULES,
        waiting=parts.commits.waiting,
        versions={
            "Myna": __version__,
            "Python": platform.python_version(),
            visit.text(N_("database schema")): schema,
        },
    )


PAGES = [Page(path="/site/health", show=show, who=Who.OPERATOR)]

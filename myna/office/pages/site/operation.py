"""The operation of the site: settings, health with the last audit, and the activity log."""

import platform

from starlette.responses import Response

from myna import __version__, config, settings
from myna.accounts import activity
from myna.actions.site import SetSetting
from myna.office.messages import N_
from myna.office.page import Page
from myna.office.visit import Visit
from myna.store.queries import accounts as accounts_store
from myna.store.queries import audit, audit_state
from myna.store.queries import config as store
from myna.store.rows import ID_MAX
from myna.store.schema import newest, schema_version

SOURCES = (N_("default"), N_("database"), N_("environment"), N_("unreadable"))
"""Where a value comes from; a file is named."""


UNREADABLE = N_("The stored value of {name} can't be read ({why}); its default applies.")


async def show_settings(visit: Visit) -> Response:
    """All settings."""
    stored = await visit.read(store.load)
    return visit.page(
        "site/settings.html",
        site=config.applied(stored),
        process=settings.load(visit.parts.environ)[1],
        unreadable=[
            visit.text(UNREADABLE).format(name=one.name, why=visit.said_of(one.why))
            for one in config.unreadable(stored)
        ],
        command_words=SetSetting(name="NAME", value="VALUE").words,
    )


async def change_setting(visit: Visit) -> Response:
    """Changes one site setting; every process uses it from its next call on."""
    action = visit.fields(SetSetting, value=visit.typed("value"))
    await visit.perform(action)
    return visit.redirect("/site/settings", "{name} is {value} now.", name=action.name, value=action.value)


async def show_health(visit: Visit) -> Response:
    """The last audit, the parts of the service, versions."""
    parts = visit.parts
    last = await visit.read(audit_state.state)
    schema = await visit.read(schema_version)
    missing = await parts.missing()
    low = parts.space.low
    books = N_("breaches: see the log") if last.breaches else N_("no breach found")
    storage = N_("low: new audio is refused") if low else N_("enough free space")
    return visit.page(
        "site/health.html",
        checks=[  # each with whether it passed, and its state
            (N_("Ledger entries"), not last.breaches, books),
            (N_("Database"), schema >= newest(visit.db.dialect), parts.settings.database_label),
            (N_("Chat"), not missing["chat"], missing["chat"] or N_("available")),
            (N_("Speech"), not missing["speech"], missing["speech"] or N_("available")),
            (N_("Storage"), not low, storage),
        ],
        last=last,
        rules=audit.RULES,
        waiting=parts.commits.waiting,
        versions={
            "Myna": __version__,
            "Python": platform.python_version(),
            visit.text(N_("database schema")): schema,
        },
    )


ROWS = 50
NOTES = (
    N_("a new password was set"),
    N_("all but the session of this change"),
    N_("the link was used to set the password"),
)
"""Behind commands, as they are stored."""


async def show_activity(visit: Visit) -> Response:
    """A page of changes, by the beginning of the command and by account."""
    prefix = visit.parameter("q").strip()[:200]
    name = visit.parameter("account").strip()[:200]
    before = visit.row_id("before")
    owner = await visit.read(accounts_store.by_name, name=name) if name else None
    rows = (
        []
        if name and owner is None
        else await visit.read(
            activity.page,
            before=before,
            limit=ROWS + 1,
            prefix=prefix,
            account_id=owner.id if owner else None,
        )
    )
    return visit.page(
        "site/activity.html",
        rows=rows[:ROWS],
        more=len(rows) > ROWS,
        q=prefix,
        name=name,
        first=before == ID_MAX,
        command_words=activity.words("activity", account=name or None),
    )


PAGES = [
    Page("/site/settings", show=show_settings, submit=change_setting, recent=True),
    Page("/site/health", show=show_health),
    Page("/site/activity", show=show_activity),
]

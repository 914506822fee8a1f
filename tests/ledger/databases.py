"""On which databases a test of these folders runs: SQLite, and with `each_database` also PostgreSQL.

On PostgreSQL too are the models, what depends on locks, notifications or lost connections, and a test of each
statement that the models do not run.
"""

import pytest

each_database = pytest.mark.parametrize("database_url", ["sqlite", "postgresql"], indirect=True)


@pytest.fixture(params=["sqlite"])
def database_url(request: pytest.FixtureRequest) -> str:
    """Empty for SQLite; a PostgreSQL database has the schema."""
    if request.param == "sqlite":
        return ""
    return str(request.getfixturevalue("postgres_books_url"))

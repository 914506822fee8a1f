"""Both databases: the statements of reports are tested here alone."""

from tests.store.conftest import dialect as dialect

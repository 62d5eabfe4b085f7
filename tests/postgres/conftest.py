"""Fixtures of the PostgreSQL tests."""

import pytest

from tests.postgres.adopted_table import EARLIER
from tests.support.postgres import execute


@pytest.fixture
def earlier(database: str) -> str:
    """A database with the table of the legacy system."""
    execute(database, EARLIER)
    return database

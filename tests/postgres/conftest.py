"""What tests of a database share."""

import pytest

from tests.postgres.adopted_table import EARLIER
from tests.support.postgres import execute


@pytest.fixture
def earlier(database: str) -> str:
    """A database with the table of the earlier system."""
    execute(database, EARLIER)
    return database

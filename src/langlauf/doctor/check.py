"""What a check is."""

from collections.abc import Callable
from enum import StrEnum
from typing import Any, NamedTuple

from langlauf.doctor.findings import Seen


class Needs(StrEnum):
    """What must be there for a check to be made."""

    SETTINGS = "settings"
    SQLITE = "sqlite"
    POSTGRES = "postgres"
    STORE = "store"
    #: the schema must be this program's
    ROWS = "rows"

    @property
    def shown(self) -> str:
        """Which stores it is for, as the documents say it."""
        return {Needs.SQLITE: "SQLite", Needs.POSTGRES: "PostgreSQL"}.get(self, "both")


class Check(NamedTuple):
    """One check. `looks_at` is its line in the documents."""

    name: str
    needs: Needs
    looks_at: str
    look: Callable[[Any], Seen]

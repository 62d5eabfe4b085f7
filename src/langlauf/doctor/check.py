"""What a check is."""

from collections.abc import Callable
from enum import StrEnum
from typing import Any, NamedTuple

from langlauf.doctor.findings import Seen


class Needs(StrEnum):
    """What must be there for a check to be made."""

    SETTINGS = "settings"
    SQLITE = "SQLite"
    POSTGRES = "PostgreSQL"
    STORE = "both"
    #: the schema must be this program's
    ROWS = "both, rows"


class Check(NamedTuple):
    """One check. `looks_at` is its line in the documents."""

    name: str
    needs: Needs
    looks_at: str
    look: Callable[[Any], Seen]

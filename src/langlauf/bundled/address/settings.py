"""Which of the gazetteer's tables to use."""

import os
from collections.abc import Mapping
from typing import Final

from langlauf.domain.errors import SettingsError

TABLE_VARIABLE: Final = "LANGLAUF_ADDRESS_TABLE"
TABLES: Final = ("15000", "5000", "1000", "500")

# Places from 5000 people up: good coverage of small countries, ready in about three seconds.
DEFAULT_TABLE: Final = "5000"


def chosen_table(environment: Mapping[str, str] | None = None) -> str:
    """The table named by `LANGLAUF_ADDRESS_TABLE`, or the default; a value that names no table is refused."""
    value = (os.environ if environment is None else environment).get(TABLE_VARIABLE, "").strip()
    if not value:
        return DEFAULT_TABLE
    if value not in TABLES:
        known = ", ".join(TABLES)
        raise SettingsError(f"{TABLE_VARIABLE} is {value!r}; it must be one of {known} (the smallest place it lists).")
    return value

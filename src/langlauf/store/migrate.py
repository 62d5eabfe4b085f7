"""Numbered migrations: `0001_what_it_does.sql`, applied in order, each once, never changed afterwards."""

import re
from importlib import resources
from typing import NamedTuple

from langlauf.domain.errors import SchemaTooNew

_FILE = re.compile(r"^(\d{4})_(\w+)\.sql$")


class Migration(NamedTuple):
    """One step of the schema's history."""

    number: int
    name: str
    sql: str


def migrations_in(package: str) -> list[Migration]:
    """Return the migrations of a driver's package, in order, without a gap."""
    found = sorted(
        Migration(int(match[1]), match[2], file.read_text("utf-8"))
        for file in resources.files(package).joinpath("migrations").iterdir()
        if (match := _FILE.match(file.name))
    )
    if [step.number for step in found] != list(range(1, len(found) + 1)):
        raise ValueError(f"the migrations of {package} are not numbered 1, 2, 3 …")
    return found


def pending(known: list[Migration], applied: int) -> list[Migration]:
    """Return the steps that are still to do; a store from a newer program is refused."""
    if applied > len(known):
        raise SchemaTooNew(
            f"the store has schema {applied}, this program knows {len(known)}: start the newer program instead"
        )
    return known[applied:]

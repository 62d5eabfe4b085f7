"""What commands do with a whole store, wherever it is: each driver has its own way to the same."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from langlauf.store.blobs.blocking import BlockingPayloads
from langlauf.store.exporting import ExportReport, Write
from langlauf.store.importing import ImportReport
from langlauf.store.location import Place, PostgresPlace
from langlauf.store.sqlite import exporting, importing, verifying
from langlauf.store.verify import Violation, Watch

# The library of PostgreSQL comes with an extra: its modules are imported where a database is named.


def check_store(place: Place, *, watch: Watch, payloads: BlockingPayloads | None) -> Iterator[Violation]:
    """What breaks a rule, warnings included, as it is found. Without `payloads` blobs are only counted."""
    if isinstance(place, PostgresPlace):
        from langlauf.store.postgres.verifying import check_database

        return check_database(place.url, watch=watch, payloads=payloads)
    return verifying.check_file(place.path, watch=watch, payloads=payloads)


def export_from(place: Place, write: Write, payloads: BlockingPayloads | None = None) -> ExportReport:
    """Hands a store out in the format of the earlier system, in pieces, blobs included."""
    if isinstance(place, PostgresPlace):
        from langlauf.store.postgres.exporting import export_v1

        return export_v1(place.url, write, payloads)
    return exporting.export_v1(place.path, write, payloads)


def import_into(place: Place, file: Path, **how: Any) -> ImportReport:
    """Brings a store of the earlier system into a store, completely or not at all."""
    if isinstance(place, PostgresPlace):
        from langlauf.store.postgres.importing import import_v1

        return import_v1(place.url, file, **how)
    return importing.import_v1(place.path, file, **how)

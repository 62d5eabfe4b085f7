"""Imports the earlier system's JSON store into a store of either kind, and exports a store in that format."""

from pathlib import Path
from typing import Any

from langlauf.compat import sqlite_import
from langlauf.compat.v1_export import ExportReport, Write, export_snapshot
from langlauf.compat.v1_import import ImportReport
from langlauf.store.blobs.blocking import BlockingPayloads
from langlauf.store.sqlite.snapshot import sound_snapshot_of
from langlauf.store.tools.location import Place, PostgresPlace

# The library of PostgreSQL comes with an extra: its modules are imported where a database is named.


def export_from(
    place: Place, write: Write, payloads: BlockingPayloads | None = None, org_id: str | None = None
) -> ExportReport:
    """Hands a store out in the format of the earlier system, or all of one org, in pieces, blobs included."""
    if isinstance(place, PostgresPlace):
        from langlauf.store.postgres.snapshot import snapshot_of

        with snapshot_of(place.url) as snapshot:
            return export_snapshot(snapshot, write, payloads, org_id)
    with sound_snapshot_of(place.path) as file:
        return export_snapshot(file, write, payloads, org_id)


def import_into(place: Place, file: Path, **how: Any) -> ImportReport:
    """Brings a store of the earlier system into a store, completely or not at all."""
    if isinstance(place, PostgresPlace):
        from langlauf.compat.postgres_import import import_v1

        return import_v1(place.url, file, **how)
    return sqlite_import.import_v1(place.path, file, **how)

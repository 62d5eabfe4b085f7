"""Writes a file in the format of the earlier system."""

import apsw

from langlauf.domain.errors import StoreUnavailable
from langlauf.store.blobs.blocking import BlockingPayloads
from langlauf.store.exporting import ExportReport, Write, export_snapshot
from langlauf.store.sqlite.snapshot import snapshot_of


def export_v1(
    db_path: str, write: Write, payloads: BlockingPayloads | None = None, org_id: str | None = None
) -> ExportReport:
    """Hands the document out in pieces, blobs included; raises `StoreError` where the store cannot be read."""
    try:
        with snapshot_of(db_path) as snapshot:
            return export_snapshot(snapshot, write, payloads, org_id)
    except apsw.CorruptError as error:
        raise StoreUnavailable(f"the store {db_path} cannot be read: {error}") from error

"""Writes a database in the format of the earlier system."""

from langlauf.store.blobs.blocking import BlockingPayloads
from langlauf.store.exporting import ExportReport, Write, export_snapshot
from langlauf.store.postgres.snapshot import snapshot_of


def export_v1(
    url: str, write: Write, payloads: BlockingPayloads | None = None, org_id: str | None = None
) -> ExportReport:
    """Hands the document out in pieces, blobs included; raises `StoreError` where the store cannot be read."""
    with snapshot_of(url) as snapshot:
        return export_snapshot(snapshot, write, payloads, org_id)

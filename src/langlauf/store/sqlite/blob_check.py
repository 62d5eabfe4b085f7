"""Checks what lies outside of a file against what its rows name."""

from collections.abc import Iterator

import apsw

from langlauf.domain.errors import PayloadUnavailable
from langlauf.store.blobs.blocking import BlockingPayloads
from langlauf.store.queries import load
from langlauf.store.sqlite.connection import open_connection
from langlauf.store.sqlite.folders import blob_folder
from langlauf.store.verify import Violation, Watch


def check_blobs(
    path: str, connection: apsw.Connection, watch: Watch, payloads: BlockingPayloads | None
) -> Iterator[Violation]:
    """Reads every blob that a row of this snapshot names."""
    queries = load("langlauf.store.sqlite", "verify.sql")
    named = connection.execute(queries["blobs"]).fetchall()
    if payloads is None:
        if named:
            evidence = f"{len(named)} payloads are kept as blobs, and LANGLAUF_BLOBS is not set"
            yield Violation("blobs_unchecked", None, None, evidence)
        return
    folder = blob_folder(connection)
    for done, (org_id, job_id, result_id, ref) in enumerate(named):
        watch("blobs_kept", done, len(named))
        try:
            payloads.read(folder, str(org_id), str(job_id), str(ref))
        except PayloadUnavailable as error:
            # Retention may have taken it since this snapshot was made.
            if _still_kept(path, queries["still_kept"], {"org_id": org_id, "result_id": result_id}):
                yield Violation("blobs_kept", str(org_id), str(job_id), f"result {result_id}: {error}")


def _still_kept(path: str, query: str, values: dict[str, object]) -> bool:
    connection = open_connection(path, read_only=True)
    try:
        return bool(connection.execute(query, values).fetchall())
    finally:
        connection.close()

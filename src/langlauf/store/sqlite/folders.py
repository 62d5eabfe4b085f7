"""Where the blobs of a file lie, for the commands that only read it."""

from typing import cast

import apsw

from langlauf.store.blobs.naming import IDENTITY, store_name
from langlauf.store.queries import load


def blob_folder(connection: apsw.Connection) -> str:
    """The folder of this store's blobs; a store that never had one has no secret either, and no such folder exists."""
    query = load("langlauf.store.sqlite", "access.sql")["read_secret"]
    rows = connection.execute(query, {"purpose": IDENTITY}).fetchall()
    return store_name(cast("bytes", rows[0][0])) if rows else "none"

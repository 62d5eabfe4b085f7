"""Where the blobs of a store lie, for the commands that only read it."""

from collections.abc import Callable, Iterable
from typing import Any

from langlauf.store.blobs.naming import IDENTITY, store_name


def folder_of(rows: Callable[..., Iterable[Any]]) -> str:
    """The folder of a store's blobs; a store that never had one has no secret either, and no such folder exists."""
    found = [secret for (secret,) in rows("read_secret", purpose=IDENTITY)]
    return store_name(bytes(found[0])) if found else "none"

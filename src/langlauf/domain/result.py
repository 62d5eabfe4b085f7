"""Snapshots: partial and final results of a job, and their payloads, which are read in pieces if they are large."""

from collections.abc import Hashable
from typing import Literal, Protocol

import msgspec

from langlauf.domain.instant import Instant

ResultKind = Literal["partial", "final"]
SCHEMA_VERSION = 1


class Snapshot(msgspec.Struct, frozen=True):
    """A stored result without its payload. Fields are in the order of the table's columns."""

    org_id: str
    result_id: str
    job_id: str
    result_kind: ResultKind
    result_seq: int
    schema_version: int
    result_payload_ref: str
    created_at: Instant
    #: JSON text, as stored
    summary_json: str | None
    #: set if retention removed the payload: the row is then a tombstone
    removed_at: Instant | None = None


class ReferencedPayloads(msgspec.Struct, frozen=True):
    """The payloads outside the store that snapshots of one job still reference."""

    #: the job has ended, so no reference will be added
    ended: bool
    #: references of snapshots that retention has not removed
    refs: frozenset[str]


class StoredResult(msgspec.Struct, frozen=True, kw_only=True):
    """A snapshot with its payload, as JSON text that is never decoded on the way out."""

    snapshot: Snapshot
    payload: str | None
    #: the views of the analysis (`domain.view`), as JSON text
    views: str | None = None
    #: the name of its schema if the earlier system gave it one; `schema_version` has its number
    schema_text: str | None = None


#: A payload up to this size is read at once.
SMALL_PAYLOAD = 65_536


class PayloadSource(Protocol):
    """The payload of one snapshot as bytes of JSON text, read in pieces.

    A read from start to end returns exactly what was written. If a piece was removed meanwhile or is damaged, reading
    raises: the client sees that the response is cut, because its length was sent before.
    """

    @property
    def size(self) -> int:
        """Return the size in bytes."""

    @property
    def whole(self) -> bytes | None:
        """Return all of it if it is small."""

    @property
    def holds(self) -> int:
        """Return the most memory that reading it takes."""

    @property
    def share(self) -> Hashable | None:
        """Return the key under which readers of the same payload share that memory, or None."""

    async def read(self, start: int) -> bytes | memoryview:
        """Return the next piece from `start` on; raise `PayloadGone` if it was removed."""

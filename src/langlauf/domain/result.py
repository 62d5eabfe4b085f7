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
    #: JSON text, kept as it is stored
    summary_json: str | None
    #: set where retention took the payload: the row is then a tombstone
    removed_at: Instant | None = None


class ReferencedPayloads(msgspec.Struct, frozen=True):
    """What the snapshots of one job still name of what lies outside of the store."""

    #: nothing is written for the job any more, so no reference will be added
    ended: bool
    #: the references of snapshots that retention has not taken
    refs: frozenset[str]


class StoredResult(msgspec.Struct, frozen=True, kw_only=True):
    """A snapshot with its payload, as JSON text, never decoded on the way out."""

    snapshot: Snapshot
    payload: str | None
    #: what the analysis wants people to see of it (`domain.showing`), as JSON text
    views: str | None = None
    #: the name of its schema where the earlier system gave it one; `schema_version` has the number in it
    schema_text: str | None = None


#: A payload up to this is read at once, with its size.
SMALL_PAYLOAD = 65_536


class PayloadSource(Protocol):
    """The payload of one snapshot as bytes of JSON text."""

    @property
    def size(self) -> int:
        """How many bytes there are in all."""

    @property
    def whole(self) -> bytes | None:
        """All of it, where it is small."""

    @property
    def holds(self) -> int:
        """How much memory reading it takes at the most."""

    @property
    def share(self) -> Hashable | None:
        """What that memory is for, where all who read the same payload share it."""

    async def read(self, start: int) -> bytes | memoryview:
        """The next piece from there on, in the order of the bytes; raises `PayloadGone` where it is no longer there."""

"""What a store asks where a payload is written, read or removed: whether it lies outside of the rows, and where."""

import logging
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol, TypeGuard
from urllib.parse import unquote, urlsplit

import msgspec

from langlauf.domain.attempt import Lease, Partial, Write, utf8_size
from langlauf.domain.errors import SettingsError, StoreError
from langlauf.domain.job import INLINE_REF
from langlauf.domain.outcome import Completed
from langlauf.domain.result import PayloadSource, ReferencedPayloads, Snapshot
from langlauf.store.admin import AccessStore
from langlauf.store.blobs.files import FileBlobs
from langlauf.store.blobs.names import IDENTITY, BlobKey, read_ref, store_name
from langlauf.store.blobs.owner import INSTANCE, BlobOwner, BlobsOfAnother, StoreIdentity
from langlauf.store.blobs.payloads import Payloads, unavailable
from langlauf.store.blobs.protocol import Blobs
from langlauf.store.blobs.s3 import ObjectBlobs, read_bucket
from langlauf.telemetry.log import LogEvent, log_event

SUPPORTED = "a path, file:///path or s3://bucket/prefix"
_SCHEME = re.compile(r"^([A-Za-z][A-Za-z0-9+.-]*)://")


def open_blobs(text: str, *, seconds: float) -> Blobs:
    """The place that LANGLAUF_BLOBS names; raises `SettingsError` where it names none. Nothing is touched yet."""
    match = _SCHEME.match(text)
    if match is None:
        return FileBlobs(Path(text).expanduser().absolute())
    scheme = match[1].lower()
    if scheme == "file":
        return FileBlobs(_folder(text))
    if scheme == "s3":
        return ObjectBlobs(read_bucket(text), seconds=seconds)
    raise SettingsError(f"LANGLAUF_BLOBS: {scheme}:// is not supported; give {SUPPORTED}")


def _folder(text: str) -> Path:
    parts = urlsplit(text)
    if parts.netloc not in ("", "localhost") or parts.query or parts.fragment or len(parts.path) <= 1:
        raise SettingsError(f"LANGLAUF_BLOBS={text!r} names no folder: write file:///path, with three slashes")
    return Path(unquote(parts.path))


class PayloadRows(Protocol):
    """What is asked of the store whose payloads these are."""

    @property
    def access(self) -> AccessStore: ...
    async def identity(self) -> StoreIdentity: ...
    async def kept_payloads(self, jobs: Sequence[tuple[str, str]]) -> Mapping[tuple[str, str], ReferencedPayloads]: ...


class LargePayloads:
    """Payloads over a limit become blobs before the row that names them is written, and come back when it is read.

    So a row never names a blob that is not there; a blob that no row came for is found by retention. Without a place
    for blobs everything stays in rows, and what an earlier run did not keep there cannot be read.
    """

    def __init__(self, rows: PayloadRows) -> None:
        self._rows = rows
        self._largest_inline = 0
        self._garbage_age = 0.0
        self._payloads: Payloads | None = None
        self._owner: BlobOwner | None = None

    def use(self, blobs: Blobs, *, largest_inline: int, seconds: float, garbage_age: float = 0.0) -> None:
        """Keeps what has more bytes than that there from now on, and waits so many seconds for an answer."""
        self._largest_inline = largest_inline
        self._garbage_age = garbage_age
        self._payloads = Payloads(blobs, self._store_name, seconds=seconds)
        self._owner = BlobOwner(self._payloads, self._instance, self._rows.identity)

    async def _store_name(self) -> str:
        return store_name(await self._rows.access.signing_secret(IDENTITY))

    async def _instance(self) -> bytes:
        return await self._rows.access.signing_secret(INSTANCE)

    async def check(self) -> None:
        """Raises `SettingsError` where blobs can never be kept, and `BlobsOfAnother` where they are not this store's.

        A place that is only away right now is told of.
        """
        if self._payloads is None or self._owner is None:
            return
        try:
            await self._payloads.blobs.check()
            await self._owner.check()
        except BlobsOfAnother:
            raise
        except StoreError as error:
            log_event(LogEvent.BLOBS_UNAVAILABLE, logging.ERROR, reason=str(error))

    async def take_over(self) -> tuple[str | None, str]:
        """Make this store the owner of its blobs; return the one that was, and this one, as people know them."""
        if self._owner is None:
            raise SettingsError("LANGLAUF_BLOBS is not set: there are no blobs to take over")
        return await self._owner.take_over()

    # -- writing -------------------------------------------------------------------------------------------------------

    def wants(self, write: Write) -> TypeGuard[Partial | Completed]:
        """Whether a write has a payload that is to lie elsewhere."""
        if self._payloads is None or not isinstance(write, Partial | Completed) or write.payload is None:
            return False
        return _is_over(write.payload, self._largest_inline)

    async def keep(self, lease: Lease, write: Partial | Completed) -> Partial | Completed:
        """Keeps the payload of a write, and gives the write that names it instead."""
        payloads, payload = self._payloads, write.payload
        if payloads is None or payload is None or not await payloads.takes(lease.org_id, lease.job_id):
            return write
        ref = await payloads.keep(lease.org_id, lease.job_id, payload)
        if isinstance(write, Completed):
            return msgspec.structs.replace(write, payload=None, payload_ref=ref)
        return msgspec.structs.replace(write, payload=None, payload_ref=ref, blob_bytes=utf8_size(payload))

    # -- reading -------------------------------------------------------------------------------------------------------

    async def text(self, org_id: str, snapshot: Snapshot) -> str | None:
        """The payload that a row names; None where there is no blob."""
        found = self._reachable(org_id, snapshot)
        return await found.read(org_id, snapshot.job_id, snapshot.result_payload_ref)

    async def small(self, org_id: str, snapshot: Snapshot, *, limit: int, seconds: float) -> str | None:
        """The same where it has no more bytes than that, and is there soon enough."""
        ref = read_ref(snapshot.result_payload_ref)
        if self._payloads is None or not is_apart(snapshot) or ref is None or ref.size > limit:
            return None
        return await self._payloads.read(org_id, snapshot.job_id, snapshot.result_payload_ref, seconds=seconds)

    async def source(self, org_id: str, snapshot: Snapshot, missing: Callable[[], Awaitable[None]]) -> PayloadSource:
        """The same to be read in pieces; `missing` raises where there is no blob and should be one."""
        found = self._reachable(org_id, snapshot)
        return await found.source(org_id, snapshot.job_id, snapshot.result_payload_ref, missing=missing)

    @property
    def there(self) -> bool:
        """Whether there is a place for blobs."""
        return self._payloads is not None

    def _reachable(self, org_id: str, snapshot: Snapshot) -> Payloads:
        if self._payloads is None:
            raise unavailable(org_id, snapshot.job_id, "it is kept as a blob, and LANGLAUF_BLOBS is not set")
        return self._payloads

    # -- removing ------------------------------------------------------------------------------------------------------

    async def clean_up(self) -> None:
        """Removes what no row names any more, after retention took rows."""
        if self._payloads is None or self._owner is None:
            return
        try:
            await self._owner.check()
            if removed := await collect(self._rows.kept_payloads, self._payloads, min_age=self._garbage_age):
                log_event(LogEvent.BLOBS_REMOVED, blobs=removed)
        except StoreError as error:
            # What was taken from the store is told all the same; the blobs wait for the next run.
            log_event(LogEvent.UPKEEP_FAILED, logging.ERROR, duty="blobs", reason=str(error))

    async def remove_all_of(self, org_id: str) -> int:
        """Takes away all that lies there of an org; how many went."""
        if self._payloads is None or self._owner is None:
            return 0
        await self._owner.check()
        removed = 0
        async for page in self._payloads.pages(org_id):
            own = [place for place in page if place.org_id == org_id]
            await self._payloads.remove(own)
            removed += len(own)
        return removed

    async def close(self) -> None:
        """Lets go of the place."""
        if self._payloads is not None:
            await self._payloads.blobs.close()


def is_apart(snapshot: Snapshot) -> bool:
    """Whether there is something to bring back: the payload is not in a row, and retention did not take it."""
    return snapshot.result_payload_ref != INLINE_REF and snapshot.removed_at is None


def _is_over(text: str, limit: int) -> bool:
    """Whether a text has more bytes than that, counted only where its letters do not tell."""
    if len(text) > limit:
        return True
    return not text.isascii() and len(text.encode()) > limit


#: What jobs, by org and id, still name: read as it is now.
FindReferences = Callable[[Sequence[tuple[str, str]]], Awaitable[Mapping[tuple[str, str], ReferencedPayloads]]]


async def collect(kept_payloads: FindReferences, payloads: Payloads, *, min_age: float = 0.0) -> int:
    """Walks over all blobs, a page at a time, and tells how many went. Safe to cut, and to run beside another."""
    removed = 0
    async for page in payloads.pages(min_age=min_age):
        # Asked after the page was read: a job that has ended by now wrote all it ever will.
        kept = await kept_payloads(sorted({(place.org_id, place.job_id) for place in page}))
        garbage = [place for place in page if is_garbage(place, kept.get((place.org_id, place.job_id)))]
        await payloads.remove(garbage)
        removed += len(garbage)
    return removed


def is_garbage(place: BlobKey, job: ReferencedPayloads | None) -> bool:
    """Whether no row names a blob, and none ever will."""
    if job is None:
        return True
    refs = (read_ref(text) for text in job.refs)
    return job.ended and place.name not in {ref.digest for ref in refs if ref is not None}

"""Large payloads of a store: stored as blobs outside of the rows, read back, and collected as garbage."""

import logging
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol, TypeGuard
from urllib.parse import unquote, urlsplit

import msgspec

from langlauf.domain.attempt import Lease, Partial, Write, utf8_size
from langlauf.domain.errors import SettingsError, StoreError
from langlauf.domain.job import INLINE_REF, PayloadText
from langlauf.domain.outcome import Completed
from langlauf.domain.result import PayloadSource, ReferencedPayloads, Snapshot
from langlauf.store.admin import AccessStore
from langlauf.store.blobs.files import FileBlobs
from langlauf.store.blobs.owner import INSTANCE, BlobOwner, BlobsOfAnother, StoreIdentity
from langlauf.store.blobs.payloads import Payloads, unavailable
from langlauf.store.blobs.protocol import IDENTITY, BlobKey, Blobs, read_ref, store_name
from langlauf.store.blobs.s3 import ObjectBlobs, read_bucket
from langlauf.telemetry.log import LogEvent, log_event

SUPPORTED = "a path, file:///path or s3://bucket/prefix"
_SCHEME = re.compile(r"^([A-Za-z][A-Za-z0-9+.-]*)://")


def open_blobs(text: str, *, seconds: float) -> Blobs:
    """Return the storage that LANGLAUF_BLOBS names, unopened; raise `SettingsError` where it names none."""
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
    """What large payloads need of their store."""

    @property
    def access(self) -> AccessStore: ...
    async def identity(self) -> StoreIdentity: ...
    async def kept_payloads(self, jobs: Sequence[tuple[str, str]]) -> Mapping[tuple[str, str], ReferencedPayloads]: ...


class LargePayloads:
    """Stores payloads above a limit as blobs before the row that references them, and reads them with the row.

    So a row never references a missing blob; a blob without a row is found by retention. Without blob storage
    everything stays in rows, and payloads that an earlier run stored as blobs cannot be read.
    """

    def __init__(self, rows: PayloadRows) -> None:
        self._rows = rows
        self._largest_inline = 0
        self._garbage_age = 0.0
        self._payloads: Payloads | None = None
        self._owner: BlobOwner | None = None

    def use(self, blobs: Blobs, *, largest_inline: int, seconds: float, garbage_age: float = 0.0) -> None:
        """Store payloads with more bytes than that as blobs from now on, and wait so many seconds for an answer."""
        self._largest_inline = largest_inline
        self._garbage_age = garbage_age
        self._payloads = Payloads(blobs, self._store_name, seconds=seconds)
        self._owner = BlobOwner(self._payloads, self._instance, self._rows.identity)

    async def _store_name(self) -> str:
        return store_name(await self._rows.access.signing_secret(IDENTITY))

    async def _instance(self) -> bytes:
        return await self._rows.access.signing_secret(INSTANCE)

    async def check(self) -> None:
        """Raise `SettingsError` where blobs can never be kept, and `BlobsOfAnother` where they are not this store's.

        Storage that does not answer right now is logged.
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
        """Whether the payload of a write becomes a blob."""
        if self._payloads is None or not isinstance(write, Partial | Completed) or write.content is None:
            return False
        return _is_over(write.content, self._largest_inline)

    async def keep(self, lease: Lease, write: Partial | Completed) -> Partial | Completed:
        """Store the payload of a write as a blob, and return the write with its reference."""
        payloads, payload = self._payloads, write.content
        if payloads is None or payload is None or not await payloads.takes(lease.org_id, lease.job_id):
            return write
        ref = await payloads.keep(lease.org_id, lease.job_id, payload)
        if isinstance(write, Completed):
            return msgspec.structs.replace(write, payload=None, payload_data=None, payload_ref=ref)
        return msgspec.structs.replace(
            write, payload=None, payload_data=None, payload_ref=ref, blob_bytes=utf8_size(payload)
        )

    # -- reading -------------------------------------------------------------------------------------------------------

    async def text(self, org_id: str, snapshot: Snapshot) -> str | None:
        """Return the payload that a row references; None where there is no blob."""
        found = self._reachable(org_id, snapshot)
        return await found.read(org_id, snapshot.job_id, snapshot.result_payload_ref)

    async def small(self, org_id: str, snapshot: Snapshot, *, limit: int, seconds: float) -> str | None:
        """Return the payload if it is no larger than the limit; raise where it takes too long."""
        ref = read_ref(snapshot.result_payload_ref)
        if self._payloads is None or not is_blob(snapshot) or ref is None or ref.size > limit:
            return None
        return await self._payloads.read(org_id, snapshot.job_id, snapshot.result_payload_ref, seconds=seconds)

    async def source(self, org_id: str, snapshot: Snapshot, missing: Callable[[], Awaitable[None]]) -> PayloadSource:
        """Return the payload as a source; `missing` raises where the blob is missing unexpectedly."""
        found = self._reachable(org_id, snapshot)
        return await found.source(org_id, snapshot.job_id, snapshot.result_payload_ref, missing=missing)

    @property
    def there(self) -> bool:
        """Whether there is blob storage."""
        return self._payloads is not None

    def _reachable(self, org_id: str, snapshot: Snapshot) -> Payloads:
        if self._payloads is None:
            raise unavailable(org_id, snapshot.job_id, "it is kept as a blob, and LANGLAUF_BLOBS is not set")
        return self._payloads

    # -- removing ------------------------------------------------------------------------------------------------------

    async def clean_up(self) -> None:
        """Delete blobs that no row references any more, after retention removed rows."""
        if self._payloads is None or self._owner is None:
            return
        try:
            await self._owner.check()
            if removed := await collect(self._rows.kept_payloads, self._payloads, min_age=self._garbage_age):
                log_event(LogEvent.BLOBS_REMOVED, blobs=removed)
        except StoreError as error:
            # The removed rows are reported all the same; the blobs wait for the next run.
            log_event(LogEvent.MAINTENANCE_FAILED, logging.ERROR, duty="blobs", reason=str(error))

    async def remove_org(self, org_id: str) -> int:
        """Delete all blobs of an org and return how many."""
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
        """Close the blob storage."""
        if self._payloads is not None:
            await self._payloads.blobs.close()


def is_blob(snapshot: Snapshot) -> bool:
    """Whether the payload is a blob that retention has not removed."""
    return snapshot.result_payload_ref != INLINE_REF and snapshot.removed_at is None


def _is_over(text: PayloadText, limit: int) -> bool:
    """Whether a text has more bytes than that; it is encoded only where its length does not decide."""
    return len(text) > limit or utf8_size(text) > limit


#: Returns the blobs that jobs, by org and id, reference right now.
FindReferences = Callable[[Sequence[tuple[str, str]]], Awaitable[Mapping[tuple[str, str], ReferencedPayloads]]]


async def collect(kept_payloads: FindReferences, payloads: Payloads, *, min_age: float = 0.0) -> int:
    """Delete garbage page by page and return how many blobs. Safe to interrupt, and to run concurrently."""
    removed = 0
    async for page in payloads.pages(min_age=min_age):
        # Queried after the page was listed: a job that has ended by now has no more writes.
        kept = await kept_payloads(sorted({(place.org_id, place.job_id) for place in page}))
        garbage = [place for place in page if is_garbage(place, kept.get((place.org_id, place.job_id)))]
        await payloads.remove(garbage)
        removed += len(garbage)
    return removed


def is_garbage(place: BlobKey, job: ReferencedPayloads | None) -> bool:
    """Whether no row references a blob, and none ever will: its job has ended, and so has no more writes."""
    if job is None:
        return True
    refs = (read_ref(text) for text in job.refs)
    return job.ended and place.name not in {ref.digest for ref in refs if ref is not None}

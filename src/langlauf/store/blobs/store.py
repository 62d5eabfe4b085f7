"""A store whose large payloads lie elsewhere. It works over any store, and knows only what every store promises."""

import logging
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any

import msgspec

from langlauf.clock import Clock
from langlauf.domain.attempt import Claim, ClaimRequest, Handed, Lease, Partial, Renewal, Write
from langlauf.domain.backlog import Backlog, Usage
from langlauf.domain.bounds import Recorded, bytes_of
from langlauf.domain.errors import SettingsError, StoreError
from langlauf.domain.holding import HoldWish, ResultGone
from langlauf.domain.inbox import MarkRead
from langlauf.domain.instant import Instant
from langlauf.domain.job import NewJob, Submitted
from langlauf.domain.outcome import Completed
from langlauf.domain.overview import Overview
from langlauf.domain.result import KeptPayloads
from langlauf.domain.retention import RetentionPolicy, RetentionReport
from langlauf.domain.retry import Backoff
from langlauf.domain.views import CancelRequest, Depth, JobView, Pulse, Swept
from langlauf.domain.waiting import Load
from langlauf.store.access import AccessStore
from langlauf.store.blobs.collecting import collect
from langlauf.store.blobs.naming import IDENTITY, store_name
from langlauf.store.blobs.orgs import OrgsWithBlobs
from langlauf.store.blobs.owner import INSTANCE, BlobOwner, BlobsOfAnother
from langlauf.store.blobs.payloads import Payloads
from langlauf.store.blobs.protocol import Blobs
from langlauf.store.blobs.reads import ReadsWithBlobs
from langlauf.store.deliveries import DeliveryStore
from langlauf.store.duties import DutyStore
from langlauf.store.health import StoreHealth
from langlauf.store.mail import MailStore
from langlauf.store.orgs import OrgStore
from langlauf.store.protocol import Store, TenantReads
from langlauf.store.whereabouts import Whereabouts
from langlauf.store.workers import WorkerStore
from langlauf.telemetry import Fact, tell


class StoreWithBlobs:
    """Payloads over a limit become blobs before the row that names them is written, and come back when it is read.

    So a row never names a blob that is not there; a blob that no row came for is found by retention. Without a place
    for blobs everything stays in rows, and what an earlier run did not keep there cannot be read.
    """

    def __init__(
        self, inner: Store, blobs: Blobs | None, *, largest_inline: int, seconds: float, garbage_age: float = 0.0
    ) -> None:
        self.inner = inner
        self._largest_inline = largest_inline
        self._garbage_age = garbage_age
        payloads = None if blobs is None else Payloads(blobs, self._store_name, seconds=seconds)
        self._payloads = payloads
        self._owner = None if payloads is None else BlobOwner(payloads, self._instance, inner.whereabouts)

    async def _store_name(self) -> str:
        return store_name(await self.inner.access.signing_secret(IDENTITY))

    async def _instance(self) -> bytes:
        return await self.inner.access.signing_secret(INSTANCE)

    async def check_blobs(self) -> None:
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
            tell(Fact.BLOBS_UNAVAILABLE, logging.ERROR, reason=str(error))

    async def take_over_blobs(self) -> tuple[str | None, str]:
        """Make this store the owner of its blobs; return the one that was, and this one, as people know them."""
        if self._owner is None:
            raise SettingsError("LANGLAUF_BLOBS is not set: there are no blobs to take over")
        return await self._owner.take_over()

    async def record(self, lease: Lease, write: Write) -> Recorded:
        if isinstance(write, Partial | Completed):
            write = await self._lightened(lease, write)
        return await self.inner.record(lease, write)

    async def _lightened(self, lease: Lease, write: Partial | Completed) -> Partial | Completed:
        payload, payloads = write.payload, self._payloads
        if payloads is None or payload is None or not _is_over(payload, self._largest_inline):
            return write
        if not await payloads.takes(lease.org_id, lease.job_id):
            return write
        ref = await payloads.keep(lease.org_id, lease.job_id, payload)
        if isinstance(write, Completed):
            return msgspec.structs.replace(write, payload=None, payload_ref=ref)
        return msgspec.structs.replace(write, payload=None, payload_ref=ref, blob_bytes=bytes_of(payload))

    async def retire(self, policy: RetentionPolicy, *, dry_run: bool, counted: bool = True) -> RetentionReport:
        report = await self.inner.retire(policy, dry_run=dry_run, counted=counted)
        if self._payloads is not None and self._owner is not None and not dry_run:
            try:
                await self._owner.check()
                if removed := await collect(self.inner, self._payloads, min_age=self._garbage_age):
                    tell(Fact.BLOBS_REMOVED, blobs=removed)
            except StoreError as error:
                # What was taken from the store is told all the same; the blobs wait for the next run.
                tell(Fact.UPKEEP_FAILED, logging.ERROR, duty="blobs", reason=str(error))
        return report

    def tenant(self, org_id: str) -> TenantReads:
        return ReadsWithBlobs(self.inner.tenant(org_id), org_id, self._payloads)

    async def close(self) -> None:
        await self.inner.close()
        if self._payloads is not None:
            await self._payloads.blobs.close()

    # -- as the store has it -------------------------------------------------------------------------------------------

    @property
    def clock(self) -> Clock:
        return self.inner.clock

    @property
    def access(self) -> AccessStore:
        return self.inner.access

    @property
    def orgs(self) -> OrgStore:
        return OrgsWithBlobs(self.inner.orgs, self._payloads, self._owner)

    @property
    def workers(self) -> WorkerStore:
        return self.inner.workers

    @property
    def duties(self) -> DutyStore:
        return self.inner.duties

    @property
    def health(self) -> StoreHealth:
        return self.inner.health

    @property
    def deliveries(self) -> DeliveryStore:
        return self.inner.deliveries

    @property
    def mail(self) -> MailStore:
        return self.inner.mail

    async def submit(self, new: NewJob) -> Submitted:
        return await self.inner.submit(new)

    async def claim(self, request: ClaimRequest) -> list[Claim]:
        return await self.inner.claim(request)

    async def claim_next(self, request: ClaimRequest, idle: Callable[[], Coroutine[Any, Any, None]]) -> Handed:
        return await self.inner.claim_next(request, idle)

    async def renew(self, leases: Sequence[Lease], *, lease_seconds: float) -> list[Renewal]:
        return await self.inner.renew(leases, lease_seconds=lease_seconds)

    async def cancel(self, request: CancelRequest) -> JobView | None:
        return await self.inner.cancel(request)

    async def mark_read(self, wish: MarkRead) -> bool:
        return await self.inner.mark_read(wish)

    async def hold(self, wish: HoldWish) -> JobView | ResultGone | None:
        return await self.inner.hold(wish)

    async def sweep(self, *, grace_seconds: float, backoff: Backoff, limit: int = 100) -> list[Swept]:
        return await self.inner.sweep(grace_seconds=grace_seconds, backoff=backoff, limit=limit)

    async def kept_payloads(self, jobs: Sequence[tuple[str, str]]) -> Mapping[tuple[str, str], KeptPayloads]:
        return await self.inner.kept_payloads(jobs)

    async def depth(self) -> Depth:
        return await self.inner.depth()

    async def paces(self) -> Mapping[str, float]:
        return await self.inner.paces()

    async def load(self) -> Load:
        return await self.inner.load()

    async def overview(self, *, since: Instant, most: int) -> Overview:
        return await self.inner.overview(since=since, most=most)

    async def pulses(self, jobs: Sequence[tuple[str, str]]) -> Mapping[tuple[str, str], Pulse]:
        return await self.inner.pulses(jobs)

    async def org_pulses(self, org_ids: Sequence[str]) -> Mapping[str, str]:
        return await self.inner.org_pulses(org_ids)

    async def backlog(self, *, orgs: bool) -> Backlog:
        return await self.inner.backlog(orgs=orgs)

    def usage(self) -> Usage:
        return self.inner.usage()

    async def whereabouts(self) -> Whereabouts:
        return await self.inner.whereabouts()

    async def check(self) -> None:
        await self.inner.check()


def _is_over(text: str, limit: int) -> bool:
    """Whether a text has more bytes than that, counted only where its letters do not tell."""
    if len(text) > limit:
        return True
    return not text.isascii() and len(text.encode()) > limit

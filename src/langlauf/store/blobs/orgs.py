"""An org as a whole, with what of it lies outside of the store."""

from langlauf.store.blobs.owner import BlobOwner
from langlauf.store.blobs.payloads import Payloads
from langlauf.store.orgs import OrgStore


class OrgsWithBlobs:
    """The same as the store has it; only blobs are removed here."""

    def __init__(self, inner: OrgStore, payloads: Payloads | None, owner: BlobOwner | None) -> None:
        self._inner = inner
        self._payloads = payloads
        self._owner = owner

    async def rows(self, org_id: str) -> dict[str, int]:
        return await self._inner.rows(org_id)

    async def held(self, org_id: str) -> int:
        return await self._inner.held(org_id)

    async def unended(self, org_id: str, limit: int) -> list[str]:
        return await self._inner.unended(org_id, limit)

    async def forget_keys(self, org_id: str) -> int:
        return await self._inner.forget_keys(org_id)

    async def remove_jobs(self, org_id: str, limit: int, *, with_held: bool, forced: bool) -> int:
        return await self._inner.remove_jobs(org_id, limit, with_held=with_held, forced=forced)

    async def remove_rows(self, org_id: str, table: str, limit: int) -> int:
        return await self._inner.remove_rows(org_id, table, limit)

    async def remove_blobs(self, org_id: str) -> int:
        if self._payloads is None or self._owner is None:
            return 0
        await self._owner.check()
        removed = 0
        async for page in self._payloads.pages(org_id):
            own = [place for place in page if place.org_id == org_id]
            await self._payloads.remove(own)
            removed += len(own)
        return removed

"""The results of one org, with payloads brought back from where they lie: the same for every store."""

from abc import ABC, abstractmethod

import msgspec

from langlauf.domain.errors import PayloadUnavailable
from langlauf.domain.read_models import JobView, ResultView, StatusView
from langlauf.domain.result import PayloadSource
from langlauf.domain.state import Status
from langlauf.store.blobs.large import LargePayloads, is_apart
from langlauf.store.blobs.payloads import unavailable

#: A status answer can do without its result: nobody waits longer for it.
_STATUS_SECONDS = 2.0


class ResultReads(ABC):
    """Whoever reads rows says what is in them; what is not in them is fetched here."""

    _org_id: str
    _blobs: LargePayloads

    @abstractmethod
    async def _result_in_rows(self, result_id: str, *, latest: bool, payload: bool) -> ResultView | None:
        """A snapshot as the rows have it."""

    @abstractmethod
    async def _source_in_rows(self, result_id: str) -> PayloadSource | None:
        """The payload of a snapshot where a row holds it."""

    @abstractmethod
    async def _status_in_rows(self, job_id: str, *, events: int, inline_limit: int) -> StatusView | None:
        """A job with its result where a row holds it."""

    async def result(self, result_id: str, *, latest: bool, payload: bool = True) -> ResultView | None:
        found = await self._result_in_rows(result_id, latest=latest, payload=payload)
        if not payload or found is None or not is_apart(found.delivered.snapshot):
            return found
        text = await self._blobs.text(self._org_id, found.delivered.snapshot)
        if text is None:
            # Retention may have taken it since the row was read: then the row says so by now.
            found = await self._result_in_rows(result_id, latest=latest, payload=True)
            if found is None or not is_apart(found.delivered.snapshot):
                return found
            text = await self._blobs.text(self._org_id, found.delivered.snapshot)
        if text is None:
            ref = found.delivered.snapshot.result_payload_ref
            raise unavailable(self._org_id, found.job.job_id, f"there is no blob for {ref}")
        return msgspec.structs.replace(found, delivered=msgspec.structs.replace(found.delivered, payload=text))

    async def source(self, result_id: str) -> PayloadSource | None:
        found = await self._source_in_rows(result_id)
        if found is not None:
            return found
        row = await self._result_in_rows(result_id, latest=False, payload=False)
        if row is None or not is_apart(row.delivered.snapshot):
            return None
        snapshot = row.delivered.snapshot

        async def missing() -> None:
            row = await self._result_in_rows(result_id, latest=False, payload=False)
            if row is not None and row.delivered.snapshot.removed_at is None:
                reason = f"there is no blob for {snapshot.result_payload_ref}"
                raise unavailable(self._org_id, snapshot.job_id, reason)

        return await self._blobs.source(self._org_id, snapshot, missing)

    async def status(self, job_id: str, *, events: int, inline_limit: int) -> StatusView | None:
        found = await self._status_in_rows(job_id, events=events, inline_limit=inline_limit)
        if not self._blobs.there or found is None or found.result is not None:
            return found
        text = await self._small_result(found.view, inline_limit)
        return found if text is None else msgspec.structs.replace(found, result=text)

    async def _small_result(self, view: JobView, limit: int) -> str | None:
        """A result that is a blob and yet small enough to be shown with its job. The job is shown in any case."""
        job = view.job
        if job.status is not Status.COMPLETED or job.result_id is None or job.result_expired_at is not None:
            return None
        found = await self._result_in_rows(job.result_id, latest=False, payload=False)
        if found is None:
            return None
        try:
            return await self._blobs.small(self._org_id, found.delivered.snapshot, limit=limit, seconds=_STATUS_SECONDS)
        except PayloadUnavailable:
            return None

"""The permanent page of a result: what was found, what it is, and the snapshots on the way there."""

from collections.abc import Sequence

import msgspec
from starlette.responses import Response

from langlauf.domain.job import Job
from langlauf.domain.result import Snapshot
from langlauf.domain.state import Status
from langlauf.http.context import Context
from langlauf.http.problems import not_found
from langlauf.http.requests import choice
from langlauf.http.results import LATEST, REQUESTED
from langlauf.service.tenant import Caller
from langlauf.ui.formatting import face, glance, size
from langlauf.ui.problem import is_known
from langlauf.ui.rendering import Rendering
from langlauf.ui.showing.panels import Showing
from langlauf.ui.visit import Visit

_MOST_LISTED = 100


class Neighbours(msgspec.Struct, frozen=True, kw_only=True):
    """The snapshots around one, newest first. `hidden` counts those that are too many for a list."""

    listed: list[Snapshot]
    hidden: int
    before: Snapshot | None
    after: Snapshot | None


class ResultPage:
    """`/results/{result_id}`."""

    def __init__(self, context: Context, rendering: Rendering) -> None:
        self._context = context
        self._rendering = rendering
        self._showing = Showing(rendering)

    async def show(self, visit: Visit, caller: Caller) -> Response:
        """The newest snapshot of the job, or with `view=requested` exactly this one; 410 where retention took it."""
        view = choice(visit.request, "view", (LATEST, REQUESTED)) or LATEST
        services = self._context.services
        reads = services.reads.of(caller)
        found = await reads.result(visit.request.path_params["result_id"], latest=view == LATEST)
        current = await reads.job(found.job.job_id) if found else None
        if found is None or current is None:
            raise not_found()
        delivered, payload = found.delivered.snapshot, found.delivered.payload
        if delivered.removed_at is not None or payload is None:
            return self._rendering.page(visit, "expired.html", 410, job=found.job, removed_at=delivered.removed_at)
        return self._rendering.page(
            visit,
            "result.html",
            job=current.job,
            face=face(current.job.status, services.reads.phase(current)),
            snapshot=delivered,
            requested=found.requested,
            exact=view == REQUESTED,
            total=snapshots_made(current.job),
            rows=glance(delivered.summary_json, payload),
            found=await self._showing.panels(visit, found.delivered),
            size=size(len(payload.encode())),
            around=neighbours(await reads.results(found.job.job_id), delivered),
            code_known=is_known(current.job.error_code),
            api=f"{self._context.links(visit.request).result(delivered.result_id)}?view={REQUESTED}",
        )


def snapshots_made(job: Job) -> int:
    """How many snapshots the job has written so far, those that retention took included."""
    return job.partial_count + (job.status is Status.COMPLETED)


def neighbours(snapshots: Sequence[Snapshot], current: Snapshot) -> Neighbours:
    """The snapshots next to one, and as many of the others around it as a list can hold."""
    numbers = [snapshot.result_seq for snapshot in snapshots]
    at = numbers.index(current.result_seq) if current.result_seq in numbers else len(numbers) - 1
    first = max(0, min(at - _MOST_LISTED // 2, len(snapshots) - _MOST_LISTED))
    listed = list(snapshots[first : first + _MOST_LISTED])
    return Neighbours(
        listed=listed[::-1],
        hidden=len(snapshots) - len(listed),
        before=snapshots[at - 1] if at > 0 else None,
        after=snapshots[at + 1] if 0 <= at < len(snapshots) - 1 else None,
    )

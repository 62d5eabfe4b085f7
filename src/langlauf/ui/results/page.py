"""The permanent page of a result: what was found, what it is, and the snapshots on the way there."""

import asyncio
from typing import Any

import msgspec
from starlette.responses import Response

from langlauf.api.context import Context
from langlauf.api.parameters import choice
from langlauf.api.results import LATEST, REQUESTED
from langlauf.auth.caller import Caller
from langlauf.domain.instant import seconds_between
from langlauf.domain.job import JobRecord
from langlauf.domain.masking import masked
from langlauf.domain.result import Snapshot
from langlauf.domain.views import ResultView
from langlauf.problems import not_found
from langlauf.service.read import CallerReads
from langlauf.ui.formatting import excerpt, face, glance, size, took
from langlauf.ui.problem import is_known
from langlauf.ui.rendering import Rendering
from langlauf.ui.results.downloads import formats_of
from langlauf.ui.results.finding import is_gone, number_in, snapshot_of, version_of
from langlauf.ui.results.versions import kept_until, neighbours, snapshots_made
from langlauf.ui.showing.panels import Showing
from langlauf.ui.showing.subject import subject_of
from langlauf.ui.showing.views import seen
from langlauf.ui.visit import Visit


class ResultPage:
    """`/results/{result_id}` and `/results/{result_id}/v/{n}`."""

    def __init__(self, context: Context, rendering: Rendering) -> None:
        self._context = context
        self._rendering = rendering
        self._showing = Showing(rendering)

    async def show(self, visit: Visit, caller: Caller) -> Response:
        """The newest snapshot of the job, or with `view=requested` exactly this one; 410 where retention took it."""
        view = choice(visit.request, "view", (LATEST, REQUESTED)) or LATEST
        reads = self._context.services.reads.of(caller)
        found = await snapshot_of(reads, visit, latest=view == LATEST)
        return await self._page(visit, reads, found, exact=view == REQUESTED)

    async def version(self, visit: Visit, caller: Caller) -> Response:
        """Exactly the snapshot of this number."""
        reads = self._context.services.reads.of(caller)
        found = await version_of(reads, visit, number_in(visit.request.path_params["number"]))
        return await self._page(visit, reads, found, exact=True)

    async def _page(self, visit: Visit, reads: CallerReads, found: ResultView, *, exact: bool) -> Response:
        services = self._context.services
        current = await reads.job(found.job.job_id)
        if current is None:
            raise not_found()
        delivered, payload = found.delivered.snapshot, found.delivered.payload
        asked = await reads.payload(found.job.job_id)
        if is_gone(found.delivered) or payload is None:
            values = {"job": found.job, "removed_at": delivered.removed_at, "asked": _input(asked)}
            return self._rendering.page(visit, "results/expired.html", 410, **values)
        job = current.job
        looked = await asyncio.to_thread(seen, found.delivered)
        return self._rendering.page(
            visit,
            "results/result.html",
            job=job,
            face=face(job.status, services.reads.phase(current)),
            snapshot=delivered,
            requested=found.requested,
            exact=exact,
            total=snapshots_made(job),
            rows=glance(delivered.summary_json, payload),
            found=await self._showing.panels_of(visit, found.delivered, looked),
            size=size(len(payload.encode())),
            formats=formats_of(looked),
            around=neighbours(await reads.results(job.job_id), delivered),
            code_known=is_known(job.error_code),
            subject=subject_of(asked, services.registry.get(job.analysis)),
            asked=_input(asked),
            api=f"{self._context.links(visit.request).result(delivered.result_id)}?view={REQUESTED}",
            **self._times(job, delivered),
        )

    def _times(self, job: JobRecord, snapshot: Snapshot) -> dict[str, Any]:
        ended = job.started_at is not None and job.finished_at is not None
        return {
            "took": took(seconds_between(job.started_at, job.finished_at)) if ended else None,  # type: ignore[arg-type]
            "until": kept_until(job, snapshot, self._context.settings.retention),
        }


def _input(asked: str | None) -> Any:
    if asked is None:
        return None
    return excerpt(msgspec.json.encode(masked(msgspec.json.decode(asked))).decode())

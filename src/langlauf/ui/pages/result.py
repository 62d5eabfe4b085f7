"""`/results/{result_id}`: the permanent page of a result."""

import asyncio
from collections.abc import Mapping
from typing import Any

import msgspec
from starlette.responses import Response

from langlauf.api.context import ApiContext
from langlauf.api.requests import choice_parameter
from langlauf.api.results import LATEST, REQUESTED, expired
from langlauf.auth.caller import Caller
from langlauf.domain.instant import seconds_between
from langlauf.domain.job import JobRecord
from langlauf.domain.provenance import is_complete, sources_in
from langlauf.domain.read_models import JobView, ResultView
from langlauf.domain.redact import redact_json
from langlauf.domain.result import ResultGone, Snapshot
from langlauf.problems import not_found
from langlauf.service.provenance import citation
from langlauf.service.read import CallerReads
from langlauf.ui.formats import display_state, format_duration, format_size, json_excerpt, result_facts
from langlauf.ui.job_input import job_subject
from langlauf.ui.language import Language
from langlauf.ui.page_request import PageRequest
from langlauf.ui.pages.public import has_problem_page
from langlauf.ui.pages.result_downloads import download_formats
from langlauf.ui.pages.snapshots import (
    is_expired,
    job_family,
    path_number,
    requested_snapshot,
    requested_version,
    retained_until,
    snapshot_neighbours,
    snapshots_made,
)
from langlauf.ui.renderer import PageRenderer
from langlauf.ui.responses import see_other
from langlauf.ui.views.panels import PanelRenderer
from langlauf.ui.views.stored_views import result_views


class ResultPage:
    """`/results/{result_id}` and `/results/{result_id}/v/{n}`."""

    def __init__(self, context: ApiContext, renderer: PageRenderer) -> None:
        self._context = context
        self._renderer = renderer
        self._panels = PanelRenderer(renderer)

    async def show(self, request: PageRequest, caller: Caller) -> Response:
        """Show the newest snapshot of the job, or with `view=requested` exactly this one; 410 where it expired."""
        view = choice_parameter(request.http, "view", (LATEST, REQUESTED)) or LATEST
        reads = self._context.services.reads.of(caller)
        found = await requested_snapshot(reads, request, latest=view == LATEST)
        request = await self._renderer.mark_read(request, caller, found.job)
        return await self._page(request, reads, found, exact=view == REQUESTED)

    async def version(self, request: PageRequest, caller: Caller) -> Response:
        """Show the snapshot with this number."""
        reads = self._context.services.reads.of(caller)
        found = await requested_version(reads, request, path_number(request.path_params["number"]))
        return await self._page(request, reads, found, exact=True)

    async def _page(self, request: PageRequest, reads: CallerReads, found: ResultView, *, exact: bool) -> Response:
        services = self._context.services
        current = await reads.job(found.job.job_id)
        if current is None:
            raise not_found()
        delivered, payload = found.delivered.snapshot, found.delivered.payload
        asked = await reads.payload(found.job.job_id)
        if is_expired(found.delivered) or payload is None:
            excerpt = _input_excerpt(asked, request.language)
            values = {"job": found.job, "removed_at": delivered.removed_at, "asked": excerpt}
            return self._renderer.page(request, "results/expired.html", 410, **values)
        job = current.job
        looked = await asyncio.to_thread(result_views, found.delivered)
        code, trail = await services.provenances.code(job), await reads.trail(job.job_id)
        words = self._renderer.analyses.words(job.analysis, request.language)
        return self._renderer.page(
            request,
            "results/result.html",
            job=job,
            display_state=display_state(job.status, services.reads.phase(current)),
            snapshot=delivered,
            requested=found.requested,
            exact=exact,
            total=snapshots_made(job),
            rows=result_facts(delivered.summary_json, payload, words),
            found=await self._panels.panels_of(request, words, found.delivered, looked),
            size=format_size(len(payload.encode()), request.language),
            formats=download_formats(looked),
            around=snapshot_neighbours(await reads.results(job.job_id), delivered),
            family=await job_family(services.reads, reads, job),
            code_known=has_problem_page(job.error_code),
            subject=job_subject(job, asked, services.registry.get(job.analysis)),
            asked=_input_excerpt(asked, request.language),
            api=f"{self._context.links(request.http).result(delivered.result_id)}?view={REQUESTED}",
            code=code,
            resumed=await reads.resumed(job.job_id) if job.retry_of else 0,
            sources=sources_in(trail),
            sources_complete=is_complete(trail),
            citation=citation(job, code, delivered.result_id),
            provenance=f"{self._context.links(request.http).result(delivered.result_id)}/provenance",
            **self._times(job, delivered, request.language),
        )

    def _times(self, job: JobRecord, snapshot: Snapshot, language: Language) -> dict[str, Any]:
        ended = job.started_at is not None and job.finished_at is not None
        return {
            "took": format_duration(seconds_between(job.started_at, job.finished_at), language) if ended else None,  # type: ignore[arg-type]
            "until": retained_until(job, snapshot, self._context.settings.retention),
        }


def _input_excerpt(asked: str | None, language: Language) -> Any:
    if asked is None:
        return None
    return json_excerpt(msgspec.json.encode(redact_json(msgspec.json.decode(asked))).decode(), language)


_MAX_HOLD_REASON = 500


class HoldForms:
    """`/results/{result_id}/hold` and `/results/{result_id}/release`."""

    def __init__(self, context: ApiContext) -> None:
        self._holds = context.services.holds

    async def hold(self, request: PageRequest, caller: Caller, fields: Mapping[str, str]) -> Response:
        """Put the result on hold and show it again; 410 where it expired."""
        reason = fields.get("reason", "").strip()[:_MAX_HOLD_REASON]
        done = await self._holds.hold(caller, request.path_params["result_id"], reason or None)
        if isinstance(done, ResultGone):
            raise expired(done)
        return self._shown(request, done)

    async def release(self, request: PageRequest, caller: Caller, _: Mapping[str, str]) -> Response:
        """Release the hold and show the result again."""
        return self._shown(request, await self._holds.release(caller, request.path_params["result_id"]))

    def _shown(self, request: PageRequest, done: JobView | None) -> Response:
        if done is None:
            raise not_found()
        return see_other(request.link("results", request.path_params["result_id"]))

"""One job: how far it is, what it has found so far, what happened, and what can be done about it."""

from collections.abc import Sequence

import msgspec
from starlette.responses import Response

from langlauf.api.context import Context
from langlauf.api.wire import trace_of
from langlauf.auth.caller import Caller
from langlauf.domain.event import Event
from langlauf.domain.instant import seconds_between
from langlauf.domain.job import JobRecord
from langlauf.domain.result import Snapshot, StoredResult
from langlauf.domain.state import Status
from langlauf.problems import not_found
from langlauf.ui.formatting import clock_text, glance, took
from langlauf.ui.jobs.events import log_of
from langlauf.ui.jobs.input import Asked, asked_of
from langlauf.ui.jobs.messages import place_of
from langlauf.ui.jobs.standing import Look, standing_of
from langlauf.ui.jobs.timeline import timeline_of
from langlauf.ui.jobs.versions import Rail, rail_of
from langlauf.ui.problem import is_known
from langlauf.ui.rendering import Rendering
from langlauf.ui.results.finding import whole
from langlauf.ui.showing.panels import Showing
from langlauf.ui.visit import Visit

#: The newest so many events make the timeline and the log of the page.
MOST_EVENTS = 400
_MOST_MESSAGES = 20
#: Without a script the whole page is loaded again, which is more to take in than a figure: not every second.
_SHORTEST_REFRESH = 2
#: What moves on without an event, such as a worker that falls silent, is seen after so many seconds.
_LOOK_AGAIN = 5


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """The version that is looked at, with what it holds; nothing where there is none to look at."""

    rail: Rail
    stored: StoredResult


class JobPage:
    """`/jobs/{job_id}`."""

    def __init__(self, context: Context, rendering: Rendering) -> None:
        self._context = context
        self._rendering = rendering
        self._showing = Showing(rendering)

    async def show(self, visit: Visit, caller: Caller) -> Response:
        """The page. Scripts keep it up to date; without them the browser comes again, unless its reader paused that."""
        reads = self._context.services.reads
        view = await reads.of(caller).job(visit.request.path_params["job_id"])
        if view is None:
            raise not_found()
        job = view.job
        events = await self._events(caller, job)
        look = Look(
            view=view,
            moment=await reads.moment(view),
            now=reads.now(),
            events=events,
            ahead=await reads.ahead(view),
            worker_seen=await self._context.services.overviews.workers_seen(job.analysis),
        )
        paused = visit.request.query_params.get("refresh") == "off"
        found = await self._found(visit, caller, job)
        messages = await reads.of(caller).notifications(job.job_id, channel=None, limit=_MOST_MESSAGES)
        return self._rendering.page(
            visit,
            "jobs/job.html",
            here="jobs",
            job=job,
            look=look,
            standing=standing_of(look, self._context.settings, visit.language),
            refresh=None if job.terminal or paused else max(_SHORTEST_REFRESH, look.moment.poll_after),
            again=_LOOK_AGAIN,
            paused=paused,
            onward=self._onward(visit, job),
            cancelable=self._cancelable(job),
            took=_took(job),
            clock=clock_text,
            line=timeline_of(job, events, look.now),
            log=log_of(events, job.event_seq, visit.request),
            found=found,
            rows=[] if found is None else glance(found.stored.snapshot.summary_json, found.stored.payload),
            panels=[] if found is None else await self._showing.panels(visit, found.stored),
            asked=await self._asked(visit, caller, job),
            messages=messages,
            places={one.notification_id: place_of(one) for one in messages},
            code_known=is_known(job.error_code),
            trace=trace_of(job) if caller.is_operator else None,
            api=self._context.links(visit.request).job(job.job_id),
        )

    async def _events(self, caller: Caller, job: JobRecord) -> Sequence[Event]:
        after = max(0, job.event_seq - MOST_EVENTS)
        return await self._context.services.reads.of(caller).events(job.job_id, after=after, limit=MOST_EVENTS)

    async def _found(self, visit: Visit, caller: Caller, job: JobRecord) -> Found | None:
        """The version that the address asks for, else the newest."""
        reads = self._context.services.reads.of(caller)
        snapshots: Sequence[Snapshot] = await reads.results(job.job_id) if job.result_id is not None else []
        rail = rail_of(snapshots, visit.request)
        if rail is None:
            return None
        known = await reads.result(rail.chosen.result_id, latest=False, payload=False)
        if known is None:
            return None
        read = await whole(reads, visit, known)
        return None if read.delivered.payload is None else Found(rail=rail, stored=read.delivered)

    async def _asked(self, visit: Visit, caller: Caller, job: JobRecord) -> Asked | None:
        payload = await self._context.services.reads.of(caller).payload(job.job_id)
        return None if payload is None else asked_of(self._context, visit, caller, job, payload)

    def _onward(self, visit: Visit, job: JobRecord) -> str | None:
        """Where a reader goes on who saw the job run: not who pinned a version, nor who wants the page to stay."""
        query = visit.request.query_params
        if job.status is not Status.COMPLETED or job.result_id is None or job.result_expired_at is not None:
            return None
        return None if "v" in query or query.get("refresh") == "off" else visit.link("results", job.result_id)

    def _cancelable(self, job: JobRecord) -> bool:
        analysis = self._context.services.registry.get(job.analysis)
        return not job.terminal and job.cancel_requested_at is None and (analysis is None or analysis.cancelable)


def _took(job: JobRecord) -> str | None:
    if job.started_at is None or job.finished_at is None:
        return None
    return took(seconds_between(job.started_at, job.finished_at))

"""One job: how far it is, what happened, and what it has found so far."""

from typing import Any

import msgspec
from starlette.responses import Response

from langlauf.domain.event import Event
from langlauf.domain.instant import Instant, seconds_between
from langlauf.domain.job import Job
from langlauf.domain.state import STARTED
from langlauf.http.context import Context
from langlauf.http.jobs import EVENTS_IN_STATUS
from langlauf.http.problems import not_found
from langlauf.service.read import Moment
from langlauf.service.tenant import Caller
from langlauf.ui.formatting import LARGEST_JSON, Row, about, face, facts_of, glance, took
from langlauf.ui.problem import is_known
from langlauf.ui.rendering import Rendering
from langlauf.ui.visit import Visit

#: A whole page again is more to take in than a figure: not every second.
_SHORTEST_REFRESH = 2
#: In these a remaining time would be a guess about somebody else.
_NO_ESTIMATE = frozenset({"canceling", "silent", "waiting", "backoff"})


class Entry(msgspec.Struct, frozen=True):
    """A line of the timeline."""

    event: Event
    facts: dict[str, Any]


class Latest(msgspec.Struct, frozen=True, kw_only=True):
    """The newest snapshot at a glance."""

    result_id: str
    kind: str
    seq: int
    created_at: Instant
    rows: list[Row]


class JobPage:
    """`/jobs/{job_id}`."""

    def __init__(self, context: Context, rendering: Rendering) -> None:
        self._context = context
        self._rendering = rendering

    async def show(self, visit: Visit, caller: Caller) -> Response:
        """The page. It asks the browser to come again while the job has not ended, unless the reader paused that."""
        services = self._context.services
        reads = services.reads.of(caller)
        job_id = visit.request.path_params["job_id"]
        # A result of many megabytes is not read for a page that shows it at a glance.
        found = await reads.status(job_id, events=EVENTS_IN_STATUS, inline_limit=LARGEST_JSON)
        if found is None:
            raise not_found()
        job = found.view.job
        moment = await services.reads.moment(found.view)
        paused = visit.request.query_params.get("refresh") == "off"
        shown = face(job.status, moment.phase)
        return self._rendering.page(
            visit,
            "job.html",
            job=job,
            moment=moment,
            face=shown,
            refresh=None if job.terminal or paused else max(_SHORTEST_REFRESH, moment.poll_after),
            paused=paused,
            percent=_percent(job),
            estimate=_estimate(job, moment, shown, visit),
            took=_took(job),
            entries=[Entry(event, facts_of(event.payload_json)) for event in reversed(found.events)],
            most_entries=EVENTS_IN_STATUS,
            latest=await self._latest(caller, job, found.result),
            code_known=is_known(job.error_code),
            api=self._context.links(visit.request).job(job.job_id),
        )

    async def _latest(self, caller: Caller, job: Job, final: str | None) -> Latest | None:
        if job.result_id is None or job.result_expired_at is not None:
            return None
        snapshots = await self._context.services.reads.of(caller).results(job.job_id)
        if not snapshots:
            return None
        newest = snapshots[-1]
        return Latest(
            result_id=newest.result_id,
            kind=newest.result_kind,
            seq=newest.result_seq,
            created_at=newest.created_at,
            rows=glance(newest.summary_json, final),
        )


def _percent(job: Job) -> int | None:
    """None while the job works and has not said how far it is: the bar then shows no figure it does not have."""
    return None if job.status in STARTED and job.progress_percent == 0 else job.progress_percent


def _estimate(job: Job, moment: Moment, shown: str, visit: Visit) -> str | None:
    """The time that is left, where the job itself tells it."""
    if job.terminal or moment.estimated_seconds is None or shown in _NO_ESTIMATE:
        return None
    return about(moment.estimated_seconds, visit.language)


def _took(job: Job) -> str | None:
    if job.started_at is None or job.finished_at is None:
        return None
    return took(seconds_between(job.started_at, job.finished_at))

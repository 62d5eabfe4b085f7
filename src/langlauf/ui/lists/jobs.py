"""The list of an org's jobs, with what is looked for in its address."""

import asyncio
import re

import msgspec
from starlette.responses import Response

from langlauf.api.context import Context
from langlauf.auth.caller import Caller
from langlauf.domain.instant import Instant, seconds_between
from langlauf.domain.job import JobRecord
from langlauf.domain.state import STARTED, Status
from langlauf.domain.views import JobPage, JobView
from langlauf.service.control import MOST_AT_ONCE
from langlauf.ui.formatting import face, took
from langlauf.ui.going import see_other
from langlauf.ui.lists.filters import RANGES, Filters, Place, cursor_of, filters_of, place_of
from langlauf.ui.lists.names import MOST_COUNTED
from langlauf.ui.rendering import Rendering
from langlauf.ui.showing.subject import subjects_of
from langlauf.ui.visit import Visit

PAGE = 50
_ID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", re.IGNORECASE)
#: What was done to chosen jobs, as the address of the list tells it.
_DEEDS = ("canceled", "repeated")


class Line(msgspec.Struct, frozen=True, kw_only=True):
    """A row of the list."""

    job: JobRecord
    #: what it is about, where its input tells
    subject: str
    face: str
    #: None while the job works and has not said how far it is
    percent: int | None
    took: str | None


class Tab(msgspec.Struct, frozen=True):
    """A state to choose, with how many jobs are in it."""

    status: str
    count: str
    current: bool


class Chip(msgspec.Struct, frozen=True):
    """A filter that is on, and the address of the list without it."""

    name: str
    value: str
    without: dict[str, str]


class Ways(msgspec.Struct, frozen=True, kw_only=True):
    """Where the pages before and after this one are, and how far a search came that is not over."""

    older: str | None
    newer: str | None
    looked_at: str | None
    looked_until: Instant | None


class JobsPage:
    """`/jobs`."""

    def __init__(self, context: Context, rendering: Rendering) -> None:
        self._context = context
        self._rendering = rendering

    async def show(self, visit: Visit, caller: Caller) -> Response:
        """The list, or what an id that was looked for leads to."""
        filters = filters_of(visit.request.query_params)
        if _ID.fullmatch(filters.q) and (way := await self._way_to(caller, filters.q.lower())) is not None:
            return see_other(visit.link(*way))
        place = place_of(visit, caller.org_id, filters)
        reads, now = self._context.services.reads.of(caller), self._context.services.access.now()
        which = filters.which(now, PAGE, place.before)
        page, counts = await asyncio.gather(reads.jobs(which), reads.counts(most=MOST_COUNTED + 1))
        subjects = await subjects_of(self._context, caller, [view.job for view in page.views])
        return self._rendering.page(
            visit,
            "lists/jobs.html",
            filters=filters,
            chips=chips_of(filters),
            tabs=tabs_of(filters, counts),
            anything=bool(counts),
            lines=[self._line(view, subjects.get(view.job.job_id, "")) for view in page.views],
            analyses=sorted({one.name for one in self._context.services.registry} | ({filters.analysis} - {""})),
            ranges=tuple(RANGES),
            most_chosen=MOST_AT_ONCE,
            place=place,
            deed=deed_of(visit),
            ways=_ways(visit, caller, filters, place, page),
        )

    async def _way_to(self, caller: Caller, name: str) -> tuple[str, str] | None:
        """The page of the job or the result with that id."""
        reads = self._context.services.reads.of(caller)
        if await reads.job(name) is not None:
            return ("jobs", name)
        found = await reads.result(name, latest=False, payload=False)
        return None if found is None else ("results", name)

    def _line(self, view: JobView, subject: str) -> Line:
        job = view.job
        working = job.status in STARTED and job.progress_percent == 0
        ran = None
        if job.started_at is not None and job.finished_at is not None:
            ran = took(seconds_between(job.started_at, job.finished_at))
        shown = face(job.status, self._context.services.reads.phase(view))
        percent = None if working else job.progress_percent
        return Line(job=job, subject=subject, face=shown, percent=percent, took=ran)


def _ways(visit: Visit, caller: Caller, filters: Filters, place: Place, page: JobPage) -> Ways:
    older = None
    if page.after is not None:
        older = visit.link("jobs", **filters.asked, **place.older(cursor_of(page.after, caller.org_id, filters)))
    return Ways(
        older=older,
        newer=visit.link("jobs", **filters.asked, **place.newer) if place.at else None,
        looked_at=grouped(page.looked_at) if page.looked_at else None,
        looked_until=None if page.after is None else page.after[0],
    )


def chips_of(filters: Filters) -> list[Chip]:
    """The filters that are on."""
    return [Chip(name, value, filters.without(name)) for name, value in filters.asked.items()]


def tabs_of(filters: Filters, counts: dict[Status, int]) -> list[Tab]:
    """All states, and all jobs before them."""
    total = sum(counts.values())
    more = any(number > MOST_COUNTED for number in counts.values())
    tabs = [Tab("", figure(max(total, MOST_COUNTED + 1) if more else total), not filters.status)]
    return tabs + [Tab(one, figure(counts.get(one, 0)), one == filters.status) for one in Status]


def grouped(number: int) -> str:
    """A number with its digits in groups of three."""
    return f"{number:,}".replace(",", "\u202f")


def figure(number: int) -> str:
    """A count; one that did not come to its end has a plus."""
    return f"{grouped(MOST_COUNTED)}+" if number > MOST_COUNTED else grouped(number)


def deed_of(visit: Visit) -> dict[str, object] | None:
    """What the reader has just done to chosen jobs."""
    asked = visit.request.query_params
    deed = next((one for one in _DEEDS if asked.get(one, "").isdecimal()), None)
    if deed is None:
        return None
    left = asked.get("left", "0")
    return {"name": deed, "done": int(asked[deed][:4]), "left": int(left[:4]) if left.isdecimal() else 0}

"""`/jobs`: the jobs of an org with filters, and actions on several of them."""

import asyncio
import re
from collections import Counter
from collections.abc import Mapping, Sequence

import msgspec
from starlette.responses import Response

from langlauf.api.context import ApiContext
from langlauf.auth.caller import Caller
from langlauf.clock import new_word
from langlauf.domain.access import KEY_ALPHABET
from langlauf.domain.instant import Instant, seconds_between
from langlauf.domain.job import JobRecord
from langlauf.domain.read_models import JobView, PageOfJobs
from langlauf.domain.state import STARTED, Status
from langlauf.service.control import MOST_AT_ONCE, cancel_many, repeat_many
from langlauf.ui.formats import display_state, format_duration, format_number
from langlauf.ui.job_input import job_subjects
from langlauf.ui.language import Language
from langlauf.ui.page_request import (
    RANGES,
    ListFilters,
    ListPosition,
    PageRequest,
    list_position,
    next_cursor,
    parse_filter_query,
    parse_filters,
    unknown_filters,
)
from langlauf.ui.renderer import PageRenderer
from langlauf.ui.responses import see_other

JOBS_PAGE_SIZE = 50
#: Jobs of a state are counted up to this; beyond it the tab shows a plus.
MAX_JOB_COUNT = 10_000
#: Jobs that match filters are counted up to this: each of them is read.
MAX_MATCHING = 1_000
_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", re.IGNORECASE)
#: Bulk actions that the address of the list can report.
_BULK_OUTCOMES = ("canceled", "repeated")


class JobRow(msgspec.Struct, frozen=True, kw_only=True):
    """A job as a row of a list."""

    job: JobRecord
    #: the title of its analysis
    title: str
    #: its label or a short text from its input, where there is one
    subject: str
    display_state: str
    #: None while a started job has not reported progress
    percent: int | None
    took: str | None
    #: what the analysis does, in the language of the page
    step: str


class StatusTab(msgspec.Struct, frozen=True):
    """A status to filter by, with its number of jobs."""

    status: str
    count: str
    current: bool


class FilterChip(msgspec.Struct, frozen=True):
    """An active filter, and the filters without it."""

    name: str
    value: str
    without: dict[str, str]


class PageLinks(msgspec.Struct, frozen=True, kw_only=True):
    """Links to the pages before and after, and how far an unfinished search came."""

    older: str | None
    newer: str | None
    looked_at: str | None
    looked_until: Instant | None


class MatchingCounts(msgspec.Struct, frozen=True):
    """Jobs by state that match the filters, among those that were looked at."""

    by_status: dict[Status, int]
    #: whether all matching jobs were found
    complete: bool


class JobListPage:
    """`/jobs`."""

    def __init__(self, context: ApiContext, renderer: PageRenderer) -> None:
        self._context = context
        self._renderer = renderer

    async def show(self, request: PageRequest, caller: Caller) -> Response:
        """Show the list, or redirect to the page of an id that was searched for."""
        filters = parse_filters(request.query_params)
        if _UUID.fullmatch(filters.q) and (way := await self._way_to(caller, filters.q.lower())) is not None:
            return see_other(request.link(*way))
        position = list_position(request, caller.org_id, filters)
        reads, now = self._context.services.reads.of(caller), self._context.services.authenticator.now()
        which = filters.which(now, JOBS_PAGE_SIZE, position.before)
        page, counts, matching = await asyncio.gather(
            reads.jobs(which), reads.counts(most=MAX_JOB_COUNT + 1), self._matching(caller, filters, now)
        )
        await self._context.services.reads.read_pauses()
        subjects = await job_subjects(self._context, caller, [view.job for view in page.views])
        return self._renderer.page(
            request,
            "lists/jobs.html",
            filters=filters,
            chips=filter_chips(filters),
            unknown=unknown_filters(request.query_params),
            tabs=status_tabs(filters, counts, request.language)
            if matching is None
            else matching_tabs(filters, matching, request.language),
            anything=bool(counts),
            lines=[self._line(request, view, subjects[view.job.job_id]) for view in page.views],
            analyses=sorted({one.name for one in self._context.services.registry} | ({filters.analysis} - {""})),
            ranges=tuple(RANGES),
            most_chosen=MOST_AT_ONCE,
            position=position,
            bulk_outcome=bulk_outcome(request),
            links=_page_links(request, caller, filters, position, page),
        )

    async def _matching(self, caller: Caller, filters: ListFilters, now: Instant) -> MatchingCounts | None:
        """Count the jobs that match the filters other than the state, up to a limit; None where there is no filter."""
        if not filters.without("status"):
            return None
        which = msgspec.structs.replace(filters, status="").which(now, MAX_MATCHING)
        page = await self._context.services.reads.of(caller).jobs(which)
        return MatchingCounts(Counter(view.job.status for view in page.views), page.after is None)

    async def _way_to(self, caller: Caller, name: str) -> tuple[str, str] | None:
        """Return the page of the job or result with an id, or None."""
        reads = self._context.services.reads.of(caller)
        if await reads.job(name) is not None:
            return ("jobs", name)
        found = await reads.result(name, latest=False, payload=False)
        return None if found is None else ("results", name)

    def _line(self, request: PageRequest, view: JobView, subject: str) -> JobRow:
        job = view.job
        working = job.status in STARTED and job.progress_percent == 0
        ran = None
        if job.started_at is not None and job.finished_at is not None:
            ran = format_duration(seconds_between(job.started_at, job.finished_at), request.language)
        shown = display_state(job.status, self._context.services.reads.phase(view))
        percent = None if working else job.progress_percent
        words = self._renderer.analyses.words(job.analysis, request.language)
        return JobRow(
            job=job,
            title=self._renderer.analyses.title(job.analysis, request.language),
            subject=subject,
            display_state=shown,
            percent=percent,
            took=ran,
            step=words.text(job.step or ""),
        )


def _page_links(
    request: PageRequest, caller: Caller, filters: ListFilters, position: ListPosition, page: PageOfJobs
) -> PageLinks:
    older = None
    if page.after is not None:
        older = request.link("jobs", **filters.asked, **position.older(next_cursor(page.after, caller.org_id, filters)))
    return PageLinks(
        older=older,
        newer=request.link("jobs", **filters.asked, **position.newer) if position.at else None,
        looked_at=format_number(page.looked_at, request.language) if page.looked_at else None,
        looked_until=None if page.after is None else page.after[0],
    )


def filter_chips(filters: ListFilters) -> list[FilterChip]:
    """Return the active filters."""
    return [FilterChip(name, value, filters.without(name)) for name, value in filters.asked.items()]


def status_tabs(filters: ListFilters, counts: dict[Status, int], language: Language) -> list[StatusTab]:
    """Return a tab for all jobs, and one for each status."""
    total = sum(counts.values())
    more = any(number > MAX_JOB_COUNT for number in counts.values())
    tabs = [StatusTab("", format_count(max(total, MAX_JOB_COUNT + 1) if more else total, language), not filters.status)]
    return tabs + [StatusTab(one, format_count(counts.get(one, 0), language), one == filters.status) for one in Status]


def matching_tabs(filters: ListFilters, counts: MatchingCounts, language: Language) -> list[StatusTab]:
    """Return the tabs with the numbers of jobs that match the other filters; a plus where there may be more."""
    more = "" if counts.complete else "+"
    by_status = counts.by_status
    tabs = [StatusTab("", f"{format_number(sum(by_status.values()), language)}{more}", not filters.status)]
    return tabs + [
        StatusTab(one, f"{format_number(by_status.get(one, 0), language)}{more}", one == filters.status)
        for one in Status
    ]


def format_count(number: int, language: Language) -> str:
    """Return a count, with a plus where counting stopped."""
    return f"{format_number(MAX_JOB_COUNT, language)}+" if number > MAX_JOB_COUNT else format_number(number, language)


def bulk_outcome(request: PageRequest) -> dict[str, object] | None:
    """Return the outcome of a bulk action that the address reports, or None."""
    asked = request.query_params
    bulk_outcome = next((one for one in _BULK_OUTCOMES if asked.get(one, "").isdecimal()), None)
    if bulk_outcome is None:
        return None
    left = asked.get("left", "0")
    return {
        "name": bulk_outcome,
        "done": int(asked[bulk_outcome][:4]),
        "left": int(left[:4]) if left.isdecimal() else 0,
    }


CANCEL, AGAIN = "cancel", "again"
#: The field with the ids of the jobs, separated by spaces.
_JOBS_FIELD = "jobs"
_KEY_LENGTH = 16
_MAX_NAMED = 10


class SelectedJob(msgspec.Struct, frozen=True):
    """A job that a bulk action applies to."""

    job: JobRecord
    display_state: str


class BulkActionPages:
    """`/selected`, and the forms that cancel or repeat the selected jobs."""

    def __init__(self, context: ApiContext, renderer: PageRenderer) -> None:
        self._context = context
        self._renderer = renderer

    async def confirm(self, request: PageRequest, caller: Caller) -> Response:
        """Ask for confirmation, with the number of jobs."""
        asked = request.query_params
        action = AGAIN if asked.get("do") == AGAIN else CANCEL
        filters = parse_filters(asked)
        if asked.get("all") == "yes":
            jobs, more = await self._matching(caller, filters)
            chosen = [one.job.job_id for one in jobs]
        else:
            chosen = list(dict.fromkeys(asked.getlist("job")))
            jobs, more = await self._jobs(caller, chosen[:MOST_AT_ONCE]), len(chosen) > MOST_AT_ONCE
        fitting = [one for one in jobs if one.job.terminal == (action == AGAIN)]
        return self._renderer.page(
            request,
            "lists/selected.html",
            action=action,
            chosen=len(chosen),
            fitting=fitting,
            shown=_MAX_NAMED,
            left=len(chosen) - len(fitting),
            over=more,
            most=MOST_AT_ONCE,
            back=filters.query(),
            back_to=request.link("jobs", **filters.asked),
            wish=new_word(KEY_ALPHABET, _KEY_LENGTH),
        )

    async def cancel(self, request: PageRequest, caller: Caller, fields: Mapping[str, str]) -> Response:
        """Cancel the selected jobs."""
        done = await cancel_many(self._context.services.control, caller, selected_job_ids(fields), fields.get("reason"))
        return redirect_to_list(request, fields, canceled=str(done.done), left=str(done.left))

    async def retry(self, request: PageRequest, caller: Caller, fields: Mapping[str, str]) -> Response:
        """Run the selected jobs again."""
        done = await repeat_many(
            self._context.services.control, caller, selected_job_ids(fields), fields.get("wish", "")
        )
        return redirect_to_list(request, fields, repeated=str(done.done), left=str(done.left))

    async def _matching(self, caller: Caller, filters: ListFilters) -> tuple[list[SelectedJob], bool]:
        """Return the newest jobs that match the filters, and whether there may be more."""
        reads = self._context.services.reads
        page = await reads.of(caller).jobs(filters.which(self._context.services.authenticator.now(), MOST_AT_ONCE))
        found = [SelectedJob(view.job, display_state(view.job.status, reads.phase(view))) for view in page.views]
        return found, page.after is not None

    async def _jobs(self, caller: Caller, job_ids: Sequence[str]) -> list[SelectedJob]:
        reads = self._context.services.reads
        views = await asyncio.gather(*(reads.of(caller).job(job_id) for job_id in job_ids))
        return [
            SelectedJob(view.job, display_state(view.job.status, reads.phase(view)))
            for view in views
            if view is not None
        ]


def selected_job_ids(fields: Mapping[str, str]) -> list[str]:
    """Return the job ids in a form."""
    return fields.get(_JOBS_FIELD, "").split()


def redirect_to_list(request: PageRequest, fields: Mapping[str, str], **said: str) -> Response:
    """Redirect to the filtered list, which shows the outcome."""
    kept = parse_filter_query(fields.get("back", "")).asked
    return see_other(request.link("jobs", **kept, **said))
